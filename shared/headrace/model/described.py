"""Models whose fields are described by the docstrings under them, which are read on request.

Pydantic's ``use_attribute_docstrings`` parses the source of each class when it is imported, in
every process. Only the command line makes JSON Schemas and tables of settings.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise
from textwrap import dedent

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Described(BaseModel):
    """A model whose JSON Schema describes fields by the docstrings under them."""

    model_config = ConfigDict(defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Return the JSON Schema with descriptions; pydantic calls this."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in descriptions(cls).items():
            alias = cls.model_fields[name].alias or name
            if alias in properties:
                properties[alias].setdefault("description", description)
        return schema


@cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring under each field of `model` that has one, inherited fields included."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and not one.__module__.startswith("pydantic"):
            found |= _under_fields(one)
    return {name: found[name] for name in model.model_fields if name in found}


def _under_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings under the fields that `model` itself declares."""
    source = ast.parse(dedent(inspect.getsource(model)))
    body = [each for declared in source.body for each in getattr(declared, "body", [])]
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
