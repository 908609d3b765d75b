"""JSON Patch (RFC 6902) on documents that are never changed in place: all of it, or nothing."""

from typing import Any

from headrace.model.events import Json
from headrace.model.json_pointer import PatchFailed, add, look_up, parse, remove, replace

__all__ = ["PatchFailed", "apply"]


def apply(document: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return `document` with `patch` applied; the document itself stays as it is.

    Raises:
        PatchFailed: the patch is malformed or does not fit the document.
    """
    if not isinstance(patch, list):
        raise PatchFailed("a patch is a list of operations")
    for operation in patch:
        if not isinstance(operation, dict):
            raise PatchFailed("an operation is an object")
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
            raise PatchFailed(f"there is no operation {other!r}")


def _value(operation: Json) -> Any:  # noqa: ANN401 - as apply
    if "value" not in operation:
        raise PatchFailed(f"{operation['op']} needs a value")
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
        raise PatchFailed(f"/{'/'.join(path)} is not as tested")
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
