"""Validation of answers to interrupts against their JSON Schemas.

A schema may be a remote backend's, and the answer is a user's. Short ones could take for ever:
references double what they name, patterns backtrack, and objects are compared in pairs. So
validation has a number of steps and a time, and patterns are matched in linear time.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as Unmatched
from referencing import Registry

from headrace.adapters.questions.answers import AnswerInvalid
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.whole_numbers import whole

_NOWHERE: Any = Registry()
"""Resolves references within a schema only; others are not fetched."""

_MOST_STEPS = 20_000
"""Keywords that are applied to parts of an answer, at most. Beyond, it is not validated."""
_MOST_SECONDS = 1.0
"""Time after which an answer is not validated further. The worker's loop waits for it."""

_LONGEST = 1000
"""Characters of a pattern, and of a text that is matched with one."""
_MOST_COPIES = 10_000
"""Product of a pattern's counted repetitions, which the engine writes out."""
_COUNTED = re.compile(r"\{(\d*),?(\d*)\}")
_CHOICES = re.compile(r"[*+{?|]")
"""Whatever jsonschema's own matching of members' names can go back to."""

type _Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError]]


class _TooManySteps(Exception):
    """The schema takes more steps or time than an answer's validation may."""


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
        if any(_CHOICES.search(name) for name in _member_patterns(schema)):
            return ""
        validator = _bounded_validator()(schema, registry=_NOWHERE)
        found = best_match(validator.iter_errors(answer))
    except Exception:  # noqa: BLE001  # errors of an invalid schema are undefined; or too many steps
        return ""
    if found is None:
        return ""
    return f"{'.'.join(map(str, found.absolute_path)) or 'answer'}: {found.message[:500]}"


def _bounded_validator() -> Any:  # noqa: ANN401  # the class is made by jsonschema
    """Return a validator for one answer."""
    steps, until = 0, time.monotonic() + _MOST_SECONDS

    def counted(keyword: _Keyword) -> _Keyword:
        def apply(
            validator: Any,  # noqa: ANN401  # as above
            value: Any,  # noqa: ANN401  # any JSON
            instance: Any,  # noqa: ANN401  # any JSON
            schema: Any,  # noqa: ANN401  # any JSON
        ) -> Iterator[ValidationError]:
            nonlocal steps
            steps += 1
            if steps > _MOST_STEPS or time.monotonic() > until:
                raise _TooManySteps
            yield from keyword(validator, value, instance, schema) or ()

        return apply

    own: Any = {"pattern": _pattern, "uniqueItems": _unique_items}
    keywords = {**Draft202012Validator.VALIDATORS, **own}
    bounded = {name: counted(keyword) for name, keyword in keywords.items()}
    return extend(Draft202012Validator, bounded)


def _pattern(
    validator: Any,  # noqa: ANN401, ARG001  # jsonschema's
    pattern: Any,  # noqa: ANN401  # any JSON
    instance: Any,  # noqa: ANN401  # any JSON
    schema: Any,  # noqa: ANN401, ARG001  # any JSON
) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"does not match {pattern!r}")


def _matches(pattern: str, text: str) -> bool:
    """Return whether the pattern occurs in `text`; one that could take long does."""
    counts = (int(most or least or 1) for least, most in _COUNTED.findall(pattern))
    if max(len(pattern), len(text)) > _LONGEST or reduce(mul, counts, 1) > _MOST_COPIES:
        return True
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern)).validate_python(text)
    except SchemaError:
        return True  # It would have to go back, or is no pattern.
    except Unmatched:
        return False
    return True


def _unique_items(
    validator: Any,  # noqa: ANN401, ARG001  # jsonschema's
    unique: Any,  # noqa: ANN401  # any JSON
    instance: Any,  # noqa: ANN401  # any JSON
    schema: Any,  # noqa: ANN401, ARG001  # any JSON
) -> Iterator[ValidationError]:
    if unique is not True or not isinstance(instance, list):
        return
    different = {json_text.encode(whole(one), orjson.OPT_SORT_KEYS) for one in instance}
    if len(different) < len(instance):
        yield ValidationError("has non-unique elements")


def _member_patterns(schema: Any) -> Iterator[str]:  # noqa: ANN401  # any JSON
    """Yield the patterns of members' names in a schema."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            if isinstance(named := one.get("patternProperties"), dict):
                yield from named
