"""Numbers on their way through protobuf, whose Struct holds only doubles.

JSON that is converted by way of protobuf keeps the numbers that a double would change: `carried`
writes them as text, `whole` reads them back. What came as protobuf has whole floats, which become
integers.
"""

from secrets import token_hex
from typing import Any

_CARRIED = f"{token_hex(8)}:"
"""Begins a number that is carried as text. Nobody outside this process knows it."""
_FREE = frozenset({"metadata", "data"})
"""Fields of A2A with any JSON; others have types of their own."""
_EXACT = 2**53
"""A double has every integer up to this one."""
_DEEPEST = 100
"""Levels that protobuf takes."""


def whole(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return `value` with every whole float as an int, and with the numbers that were carried."""
    if isinstance(value, dict):
        return {key: whole(one) for key, one in value.items()}
    if isinstance(value, list):
        return [whole(one) for one in value]
    if isinstance(value, str):
        return _number(value.removeprefix(_CARRIED)) if value.startswith(_CARRIED) else value
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT
    return int(value) if is_whole else value


def carried(value: Any, depth: int = 0, *, is_free: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON of A2A with the numbers that a double would change as text, for `whole`."""
    if depth > _DEEPEST:
        return value  # Protobuf refuses it.
    if isinstance(value, dict):
        return {
            key: carried(one, depth + 1, is_free=is_free or key in _FREE)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [carried(one, depth + 1, is_free=is_free) for one in value]
    return f"{_CARRIED}{value!r}" if is_free and _is_changed(value) else value


def _is_changed(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and abs(value) > _EXACT


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
