"""JSON Patch (RFC 6902), applied as a whole or not at all, without changing documents in place."""

import re
from itertools import pairwise
from typing import Any

from headrace.model.events import Json

_POINTER = re.compile(r"(/([^/~]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")


class PatchFailed(ValueError):
    """A patch is malformed or does not match its document."""


def parse(pointer: Any) -> list[str]:  # noqa: ANN401 - any JSON value, checked here
    """Return the keys in `pointer`. An empty list means the whole document.

    Raises:
        PatchFailed: It is not a JSON Pointer.
    """
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        raise PatchFailed(f"{pointer!r} is not a JSON Pointer")
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    # AG-UI's client refuses these, because they would change what all of its objects inherit.
    if "__proto__" in keys or ("constructor", "prototype") in pairwise(keys):
        raise PatchFailed(f"{pointer!r} names what JavaScript's objects inherit")
    return keys


def look_up(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at `path`.

    Raises:
        PatchFailed: The path does not exist.
    """
    for key in path:
        document = document[_place(document, key)]
    return document


def add(document: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy with `value` added at `path`. In a list, later items move up.

    Raises:
        PatchFailed: The parent does not exist, or the index is beyond the list's end.
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
    raise PatchFailed(f"{key!r} can't be added: its parent is neither an object nor a list")


def replace(document: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy with the value at `path` replaced by `value`.

    Raises:
        PatchFailed: The path does not exist.
    """
    if not path:
        return value
    key, *rest = path
    return _with(document, key, replace(document[_place(document, key)], rest, value))


def remove(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - as look_up
    """Return a copy without the value at `path`. In a list, later items move down.

    Raises:
        PatchFailed: The path does not exist, or is the whole document.
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
    """Return the key or index for `key`, which must exist in `document`."""
    if isinstance(document, list):
        return _index(key, len(document) - 1)
    if isinstance(document, dict) and key in document:
        return key
    raise PatchFailed(f"{key!r} does not exist")


def _index(key: str, highest: int) -> int:
    if not _INDEX.fullmatch(key) or int(key) > highest:
        raise PatchFailed(f"index {key!r} does not exist")
    return int(key)


__all__ = ["PatchFailed", "apply"]


def apply(document: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return `document` with `patch` applied. The document itself is not changed.

    Raises:
        PatchFailed: The patch is malformed or does not match the document.
    """
    if not isinstance(patch, list):
        raise PatchFailed("a patch must be a list of operations")
    for operation in patch:
        if not isinstance(operation, dict):
            raise PatchFailed("an operation must be an object")
        document = _apply(document, operation)
    return document


def _apply(document: Any, operation: Json) -> Any:  # noqa: ANN401 - as apply
    path = parse(operation.get("path"))
    match operation.get("op"):
        case "add":
            return add(document, path, _value(operation))
        case "replace":
            return replace(document, path, _value(operation))
        case "remove":
            return remove(document, path)
        case "copy":
            return add(document, path, look_up(document, parse(operation.get("from"))))
        case "move":
            return _move(document, parse(operation.get("from")), path)
        case "test":
            return _test(document, path, _value(operation))
        case other:
            raise PatchFailed(f"unknown operation {other!r}")


def _value(operation: Json) -> Any:  # noqa: ANN401 - as apply
    if "value" not in operation:
        raise PatchFailed(f"operation {operation['op']} needs a value")
    return operation["value"]


def _move(document: Any, origin: list[str], path: list[str]) -> Any:  # noqa: ANN401 - as apply
    if origin == path:
        look_up(document, origin)
        return document
    if path[: len(origin)] == origin:
        raise PatchFailed("a value can't move into itself")
    return add(remove(document, origin), path, look_up(document, origin))


def _test(document: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401 - as apply
    if not _same(look_up(document, path), value):
        raise PatchFailed(f"test failed: /{'/'.join(path)} has another value")
    return document


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - as apply
    """Compare as JSON does: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
