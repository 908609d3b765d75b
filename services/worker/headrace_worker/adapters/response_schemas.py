"""Validation of answers to interrupts against their JSON Schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry

from headrace.model import json_text
from headrace.model.events import Json
from headrace_worker.adapters.answers import AnswerInvalid

_NOWHERE: Any = Registry()
"""Resolves references within a schema only; others are not fetched."""


def checked(answers: Mapping[str, Any], interrupts: Sequence[Json]) -> Json:
    """Return the answers to the interrupts, by id, valid for their ``responseSchema``.

    Text that is not valid itself is parsed as JSON if the result is valid: clients without
    interrupts can only send text.

    Raises:
        AnswerInvalid: An answer does not match the requested schema.
    """
    schemas = {interrupt["id"]: interrupt.get("responseSchema") for interrupt in interrupts}
    return {name: conforming(name, given, schemas.get(name)) for name, given in answers.items()}


def conforming(name: str, answer: Any, schema: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the answer to the interrupt `name`, valid for `schema`, as `checked` does.

    Raises:
        AnswerInvalid: The answer does not match the schema.
    """
    wrong = _wrong(answer, schema)
    if not wrong:
        return answer
    if isinstance(answer, str):
        try:
            read = json_text.decode_foreign(answer)
        except orjson.JSONDecodeError:
            pass
        else:
            if not _wrong(read, schema):
                return read
    raise AnswerInvalid(f"the answer to {name}: {wrong}")


def _wrong(answer: Any, schema: Any) -> str:  # noqa: ANN401  # any JSON
    """Return which field breaks which rule; empty if none does or the schema is invalid."""
    if not isinstance(schema, dict):
        return ""
    try:
        found = best_match(Draft202012Validator(schema, registry=_NOWHERE).iter_errors(answer))
    except Exception:  # noqa: BLE001  # errors of an invalid schema are undefined
        return ""
    if found is None:
        return ""
    return f"{'.'.join(map(str, found.absolute_path)) or 'answer'}: {found.message[:500]}"
