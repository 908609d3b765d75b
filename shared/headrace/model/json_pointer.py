"""JSON Pointer (RFC 6901) into documents that are never changed in place."""

import re
from typing import Any

_POINTER = re.compile(r"(/([^/~]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")


class PatchFailed(ValueError):
    """A patch is malformed or does not fit its document."""


def parse(pointer: Any) -> list[str]:  # noqa: ANN401 - any JSON value, checked here
    """Return the keys that `pointer` goes along; none is the whole document.

    Raises:
        PatchFailed: it is no JSON Pointer.
    """
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        raise PatchFailed(f"{pointer!r} is no JSON Pointer")
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def look_up(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at `path`.

    Raises:
        PatchFailed: there is none.
    """
    for key in path:
        document = document[_place(document, key)]
    return document


def add(document: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy with `value` put at `path`; in a list, what follows moves up.

    Raises:
        PatchFailed: there is nothing to put it into, or the index is beyond the list's end.
    """
    if not path:
        return value
    key, *rest = path
    if rest:
        return _with(document, key, add(document[_place(document, key)], rest, value))
    if isinstance(document, list):
        index = len(document) if key == "-" else _index(key, len(document))
        return [*document[:index], value, *document[index:]]
    if isinstance(document, dict):
        return {**document, key: value}
    raise PatchFailed(f"{key!r} has nothing to stand in")


def replace(document: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy with `value` instead of what is at `path`.

    Raises:
        PatchFailed: there is nothing.
    """
    if not path:
        return value
    key, *rest = path
    return _with(document, key, replace(document[_place(document, key)], rest, value))


def remove(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy without what is at `path`; in a list, what follows moves down.

    Raises:
        PatchFailed: there is nothing, or it is the whole document.
    """
    if not path:
        raise PatchFailed("the whole document can't be removed")
    key, *rest = path
    place = _place(document, key)
    if rest:
        return _with(document, key, remove(document[place], rest))
    copy = document.copy()
    del copy[place]
    return copy


def _with(document: Any, key: str, value: Any) -> Any:  # noqa: ANN401 - as look_up
    copy = document.copy()
    copy[_place(document, key)] = value
    return copy


def _place(document: Any, key: str) -> Any:  # noqa: ANN401 - an index or a key
    """Return how to subscript `document`, in which `key` must exist."""
    if isinstance(document, list):
        return _index(key, len(document) - 1)
    if isinstance(document, dict) and key in document:
        return key
    raise PatchFailed(f"there is no {key!r}")


def _index(key: str, highest: int) -> int:
    if not _INDEX.fullmatch(key) or int(key) > highest:
        raise PatchFailed(f"there is no index {key!r}")
    return int(key)
