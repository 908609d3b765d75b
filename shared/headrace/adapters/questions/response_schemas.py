"""Validation of answers to interrupts against their JSON Schemas.

A schema may be a remote backend's. A short one could take for ever: references double what they
name, and patterns backtrack. So validation has a number of steps, and such patterns are left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry

from headrace.adapters.questions.answers import AnswerInvalid
from headrace.model import json_text
from headrace.model.events import Json

_NOWHERE: Any = Registry()
"""Resolves references within a schema only; others are not fetched."""

_MOST_STEPS = 20_000
"""Keywords that are applied to parts of an answer, at most. Beyond, it is not validated."""

_LONGEST_MATCHED = 1000
"""Characters of a text that is matched with a pattern."""
_REPEATED_GROUP = re.compile(r"\)[*+{]|\\[1-9]|\(\?P=")
_REPEAT = re.compile(r"[*+{]")
_MOST_REPEATS = 2
"""Of characters in a pattern: a match takes the text's length to that power."""

type _Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class _TooManySteps(Exception):
    """The schema takes more steps than an answer's validation may."""


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
        quick = _without_slow_patterns(schema, answer)
        validator = _bounded_validator()(quick, registry=_NOWHERE)
        found = best_match(validator.iter_errors(answer))
    except Exception:  # noqa: BLE001  # errors of an invalid schema are undefined; or too many steps
        return ""
    if found is None:
        return ""
    return f"{'.'.join(map(str, found.absolute_path)) or 'answer'}: {found.message[:500]}"


def _bounded_validator() -> Any:  # noqa: ANN401  # the class is made by jsonschema
    """Return a validator for one answer."""
    steps = 0

    def counted(keyword: _Keyword) -> _Keyword:
        def apply(
            validator: Any,  # noqa: ANN401  # as above
            value: Any,  # noqa: ANN401  # any JSON
            instance: Any,  # noqa: ANN401  # any JSON
            schema: Any,  # noqa: ANN401  # any JSON
        ) -> Iterator[ValidationError]:
            nonlocal steps
            steps += 1
            if steps > _MOST_STEPS:
                raise _TooManySteps
            yield from keyword(validator, value, instance, schema) or ()

        return apply

    keywords = Draft202012Validator.VALIDATORS
    bounded = {name: counted(keyword) for name, keyword in keywords.items()}
    return extend(Draft202012Validator, bounded)


def _without_slow_patterns(schema: Any, answer: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the schema without patterns that could take for ever with the answer.

    Others take at most the square of a text's length, so none is kept for an answer with long text.
    """
    has_long_text = any(len(text) > _LONGEST_MATCHED for text in _texts(answer))

    def is_kept(pattern: str) -> bool:
        return not (
            has_long_text
            or _REPEATED_GROUP.search(pattern)
            or len(_REPEAT.findall(pattern)) > _MOST_REPEATS
        )

    def kept(part: Any) -> Any:  # noqa: ANN401  # any JSON
        if isinstance(part, list):
            return [kept(one) for one in part]
        if not isinstance(part, dict):
            return part
        rest = {
            name: kept(one)
            for name, one in part.items()
            if name != "pattern" or not isinstance(one, str) or is_kept(one)
        }
        if isinstance(patterns := rest.get("patternProperties"), dict):
            rest["patternProperties"] = {at: one for at, one in patterns.items() if is_kept(at)}
        return rest

    return kept(schema)


def _texts(answer: Any) -> Iterator[str]:  # noqa: ANN401  # any JSON
    """Yield all texts and names in the answer."""
    waiting = [answer]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            yield from one
            waiting += one.values()
