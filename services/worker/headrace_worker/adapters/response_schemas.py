"""Answers to interrupts, checked against the JSON Schema that the question came with."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry

from headrace.model.events import Json
from headrace_worker.adapters.answers import AnswerInvalid

_NOWHERE: Any = Registry()
"""Where a schema's references lead: into the schema itself. Others are not fetched."""


def checked(answers: Mapping[str, Any], asked: Sequence[Json]) -> Json:
    """Return the answers to the interrupts `asked`, by id, as their ``responseSchema`` takes them.

    Text that a schema refuses is read as JSON if the schema takes that: a client that knows no
    interrupts has only words.

    Raises:
        AnswerInvalid: an answer is not of the shape that was asked for.
    """
    schemas = {interrupt["id"]: interrupt.get("responseSchema") for interrupt in asked}
    return {name: conforming(name, given, schemas.get(name)) for name, given in answers.items()}


def conforming(name: str, answer: Any, schema: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the answer to the interrupt `name` as `schema` takes it, as `checked` does.

    Raises:
        AnswerInvalid: it is not of that shape.
    """
    wrong = _wrong(answer, schema)
    if not wrong:
        return answer
    if isinstance(answer, str):
        try:
            read = orjson.loads(answer)
        except orjson.JSONDecodeError:
            pass
        else:
            if not _wrong(read, schema):
                return read
    raise AnswerInvalid(f"the answer to {name}: {wrong}")


def _wrong(answer: Any, schema: Any) -> str:  # noqa: ANN401  # any JSON
    """Return which field breaks which rule; empty: none does, or the schema is none."""
    if not isinstance(schema, dict):
        return ""
    try:
        found = best_match(Draft202012Validator(schema, registry=_NOWHERE).iter_errors(answer))
    except Exception:  # noqa: BLE001  # what a schema that is none leads to is not defined
        return ""
    if found is None:
        return ""
    return f"{'.'.join(map(str, found.absolute_path)) or 'answer'}: {found.message[:500]}"
