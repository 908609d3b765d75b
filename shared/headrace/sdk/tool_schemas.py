"""Function parameters as JSON Schema and as a pydantic model that validates arguments."""

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError

from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Misdeclared
from headrace.sdk.source import declared_at

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):")
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.+)$")


@dataclass(frozen=True)
class Signature:
    """A function's parameters, except the one for the run's context."""

    description: str
    """The part of the docstring before its first section."""
    model: type[BaseModel]
    schema: Json
    context: str | None
    """Name of the parameter that receives the `RunContext`. None: no such parameter."""

    def read(self, arguments: Any) -> BaseModel:  # noqa: ANN401  # any JSON
        """Validate the arguments: an object or its JSON text. Empty text is an empty object.

        Raises:
            ValidationError: The arguments do not match the function's parameters.
        """
        if isinstance(arguments, str | bytes):
            return self.model.model_validate_json(arguments or "{}")
        return self.model.model_validate(arguments)

    def arguments(self, given: BaseModel, ctx: RunContext) -> Json:
        """Return the function's keyword arguments."""
        named = {name: getattr(given, name) for name in type(given).model_fields}
        return {**named, self.context: ctx} if self.context else named


def signature_of(function: Callable[..., Any]) -> Signature:
    """Read a function's signature and docstring.

    Raises:
        Misdeclared: A parameter has no annotation, can't be passed by keyword, or has no JSON
            Schema.
    """
    name = _name_of(function)
    documented = inspect.getdoc(function) or ""
    descriptions = dict(_described(documented))
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = [
            _checked(p, hints, function) for p in inspect.signature(function).parameters.values()
        ]
        contexts = [p.name for p in parameters if hints[p.name] is RunContext]
        fields: dict[str, Any] = {
            p.name: (hints[p.name], _field(p, descriptions))
            for p in parameters
            if p.name not in contexts
        }
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        schema = _without_titles(model.model_json_schema())
    except (NameError, TypeError, ValueError, PydanticUserError) as error:
        why = f"no JSON schema can be made for tool {name!r}: {error}"
        raise Misdeclared(f"{why}{declared_at(function)}") from error
    return Signature(_summary(documented), model, schema, contexts[0] if contexts else None)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _checked(
    parameter: inspect.Parameter, hints: Json, function: Callable[..., Any]
) -> inspect.Parameter:
    what = f"{_name_of(function)}: parameter {parameter.name}"
    by_name = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    if parameter.kind not in by_name:
        raise Misdeclared(f"{what} must accept a keyword argument{declared_at(function)}")
    if parameter.name not in hints:
        raise Misdeclared(f"{what} needs a type annotation{declared_at(function)}")
    return parameter


def _field(parameter: inspect.Parameter, descriptions: dict[str, str]) -> Any:  # noqa: ANN401  # pydantic's
    empty = parameter.default is inspect.Parameter.empty
    default = ... if empty else parameter.default
    about = descriptions.get(parameter.name)
    return default if about is None else Field(default, description=about)


def _summary(documented: str) -> str:
    lines: list[str] = []
    for line in documented.splitlines():
        if _SECTION.match(line):
            break
        lines.append(line)
    return "\n".join(lines).strip()


def _described(documented: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in documented.splitlines():
        if section := _SECTION.match(line):
            inside = section[1] in {"Args", "Arguments", "Parameters"}
        elif inside and (found := _ARGUMENT.match(line)):
            yield found[1], found[2].strip()


def _without_titles(schema: Any) -> Any:  # noqa: ANN401  # any JSON Schema
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(inner) for name, inner in value.items()}
            if key in {"properties", "$defs"}
            else _without_titles(value)
            for key, value in schema.items()
            if key != "title"
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema
