"""What goes into a step's record: results as JSON of their type, errors, digests of arguments."""

import json
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from headrace.model import json_text
from headrace.sdk.errors import MalformedOutput

_LONGEST_ERROR = 1000
"""Characters of the messages of recorded errors."""

_MOST_OF_ERROR = 4 * 1024
"""Bytes of such a message as ASCII JSON, where a character has up to 12: a record is a header."""

_SURROGATE = r"\ud"
"""How the escape of half of a character begins."""


def shortened(message: str) -> str:
    """Return the beginning of an error's message that a record has room for."""
    message = message[:_LONGEST_ERROR]
    while len(json.dumps(message)) > _MOST_OF_ERROR:
        message = message[: len(message) // 2]
    return message


def digest_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a digest of a call's arguments; empty: they have none.

    JSON, Pydantic models, sets, and values such as times count. Other objects do not, which may be
    a framework's context and differ between attempts.
    """
    try:
        text = _written([args, kwargs])
    except (TypeError, ValueError, RecursionError):
        return ""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=_counted)


def _counted(value: object) -> Any:  # noqa: ANN401  # any JSON
    match value:
        case BaseModel():
            return value.model_dump(warnings=False)
        case set() | frozenset():
            return sorted(map(_written, value))  # Processes write a set in different orders.
        case date() | time() | timedelta() | UUID() | Decimal() | Enum() | bytes():
            return str(value)
    return None


def encoded(name: str, result: Any, adapter: TypeAdapter[Any] | None) -> str:  # noqa: ANN401  # the function's
    """Return the result of the step `name` as ASCII JSON.

    Raises:
        MalformedOutput: It is not JSON, or does not fit its type.
    """
    try:
        text = json.dumps(to_jsonable_python(result))
        if _SURROGATE in text:
            text = json_text.without_halves(text.encode()).decode()
        decoded(text, adapter)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        what = "does not fit its type" if isinstance(error, ValidationError) else "is not JSON"
        raise MalformedOutput(
            f"the result of step {name!r} {what}; return JSON, a dataclass or a Pydantic"
            " model, and store large or binary content as a file"
        ) from error
    return text


def decoded(text: str, adapter: TypeAdapter[Any] | None) -> Any:  # noqa: ANN401  # the function's
    """Return the result; `adapter` validates it if there is one.

    Raises:
        ValidationError: It does not fit its type.
    """
    return json.loads(text) if adapter is None else adapter.validate_json(text)


def annotation_of(function: Callable[..., Any]) -> Any:  # noqa: ANN401  # a type
    """Return the type of the function's result. None: it has no annotation that can be read."""
    if not hasattr(function, "__annotations__"):
        return None
    try:
        return typing.get_type_hints(function, include_extras=True).get("return")
    except (NameError, TypeError, AttributeError):
        return None


_UNTYPED: tuple[Any, ...] = (None, type(None), Any, object)


def type_adapter(kind: Any) -> TypeAdapter[Any] | None:  # noqa: ANN401  # a type
    """Return what validates values of the type; None: Pydantic does not know it."""
    if kind in _UNTYPED:
        return None
    try:
        made = _made_adapter(kind)
    except (PydanticUserError, TypeError):
        return None  # as of a class of its own, whose instances are no JSON
    return made if made.pydantic_complete else None


@lru_cache(maxsize=512)
def _made_adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401  # a type
    return TypeAdapter(kind)
