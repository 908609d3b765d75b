"""JSON Patch (RFC 6902), applied as a whole or not at all, without changing documents in place.

Documents and patches have limits: a few `copy` operations could make any amount of JSON otherwise.
"""

import re
from itertools import pairwise
from typing import Any, NamedTuple

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.nesting import MAX_DEPTH, RULE, is_too_deep

MAX_BYTES = 1_000_000
"""Maximum size of a document, in bytes of JSON; patches may copy as much."""

MAX_VALUES = 200_000
"""Maximum number of values in a document, its objects and lists included."""

MAX_OPERATIONS = 10_000
"""Maximum number of operations in a patch."""

MAX_SHIFTS = 20_000_000
"""Maximum number of times that the items of lists move up or down in a patch."""

_POINTER = re.compile(r"(/([^/~]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")
_NAMED = 100
"""Characters of a pointer or key that an error message repeats."""


class PatchFailed(ValueError):
    """A patch is malformed or does not match its document."""


class LimitExceeded(PatchFailed):
    """A document, or a patch, is larger than may be."""


class _Size(NamedTuple):
    """What a document takes, or more: it may be an upper bound."""

    bytes: int
    values: int

    @property
    def is_allowed(self) -> bool:
        return self.bytes <= MAX_BYTES and self.values <= MAX_VALUES

    def check(self) -> None:
        if self.bytes > MAX_BYTES:
            raise LimitExceeded(f"takes {self.bytes} bytes of JSON; the limit is {MAX_BYTES}")
        if self.values > MAX_VALUES:
            raise LimitExceeded(f"has {self.values} values; the limit is {MAX_VALUES}")


class CopyBudget:
    """How much the `copy` operations of one or more patches may copy."""

    def __init__(self) -> None:
        """Allow `MAX_BYTES`."""
        self._left = MAX_BYTES

    def spend(self, size: int) -> None:
        """Spend `size` bytes.

        Raises:
            LimitExceeded: They are not left.
        """
        if size > self._left:
            raise LimitExceeded(f"copies more than {MAX_BYTES} bytes of JSON")
        self._left -= size


class Document:
    """JSON that patches change. It is immutable: a patch makes another document."""

    __slots__ = ("_size", "value")

    def __init__(self, value: Any, size: _Size | None = None) -> None:  # noqa: ANN401 - any JSON value
        """Hold `value`, which is measured when its size is needed."""
        self.value = value
        self._size = size

    def check(self) -> None:
        """Check the limits.

        Raises:
            LimitExceeded: It is larger, or nested deeper.
            PatchFailed: It is not JSON.
        """
        if is_too_deep(self.value):
            raise LimitExceeded(RULE)
        if self._size is None or not self._size.is_allowed:
            self._size = _measured(self.value)
        self._size.check()

    def patched(self, patch: Any, copies: CopyBudget | None = None) -> "Document":  # noqa: ANN401 - any JSON value
        """Return the document with `patch` applied, whose copies are taken from `copies`.

        Raises:
            LimitExceeded: The result would be larger than a document may be, or the patch is.
            PatchFailed: The patch is malformed or does not match the document.
        """
        if not isinstance(patch, list):
            raise PatchFailed("a patch must be a list of operations")
        if not patch:
            return self
        if len(patch) > MAX_OPERATIONS:
            raise LimitExceeded(f"has {len(patch)} operations; the limit is {MAX_OPERATIONS}")
        if self._size is None:
            self._size = _measured(self.value)
        patching = _Patching(self.value, self._size, copies or CopyBudget())
        for operation in patch:
            if not isinstance(operation, dict):
                raise PatchFailed("an operation must be an object")
            patching.apply(operation)
        result = Document(patching.value, patching.size)
        if patching.has_deepened or not patching.size.is_allowed:
            result.check()
        return result


def apply(document: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return `document` with `patch` applied. The document itself is not changed.

    Raises:
        LimitExceeded: The result would be larger than a document may be, or the patch is.
        PatchFailed: The patch is malformed or does not match the document.
    """
    return Document(document).patched(patch).value


def _measured(value: Any) -> _Size:  # noqa: ANN401 - any JSON value
    size = _bound(_dumped(value))
    return size if size.is_allowed else _Size(size.bytes, _count(value))


def _dumped(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    try:
        return json_text.encode(value)
    except TypeError as error:
        raise PatchFailed(f"not JSON: {error}") from None


def _bound(dumped: bytes) -> _Size:
    """Return the size of a value: each value but the first follows one of these characters."""
    return _Size(len(dumped), 1 + dumped.count(b",") + dumped.count(b"[") + dumped.count(b"{"))


def _count(value: Any) -> int:  # noqa: ANN401 - any JSON value
    count, level = 0, [value]
    while level:
        count += len(level)
        containers = [one for one in level if isinstance(one, (dict, list))]
        level = [c for one in containers for c in (one.values() if isinstance(one, dict) else one)]
    return count


class _Patching:
    """A document while the operations of a patch change it.

    Lists and objects of the original are copied before their first change; the copies are then
    changed in place, or each of many operations on a long list would copy it.
    """

    def __init__(self, value: Any, size: _Size, copies: CopyBudget) -> None:  # noqa: ANN401 - any JSON value
        self.value, self.size = value, size
        self.has_deepened = False
        """Whether a move may have brought something too deep."""
        self._copies = copies
        self._shifts = 0
        self._own: dict[int, Any] = {}
        """The containers that may be changed in place, by id."""

    def apply(self, operation: Json) -> None:
        path = parse(operation.get("path"))
        match operation.get("op"):
            case "add":
                self._add(path, self._new(path, _value(operation)))
            case "replace":
                self._replace(path, self._new(path, _value(operation)))
            case "remove":
                self._remove(path)
            case "copy":
                self._copy(parse(operation.get("from")), path)
            case "move":
                self._move(parse(operation.get("from")), path)
            case "test":
                self._test(path, _value(operation))
            case other:
                raise PatchFailed(f"unknown operation {_named(other)}")

    def _new(self, path: list[str], value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return `value`, which is added at `path`."""
        self._grow(path, value, _dumped(value))
        return value

    def _grow(self, path: list[str], value: Any, dumped: bytes) -> None:  # noqa: ANN401 - any JSON value
        if len(path) >= MAX_DEPTH or is_too_deep(value, MAX_DEPTH - len(path)):
            raise LimitExceeded(RULE)
        added = _bound(dumped)
        self.size = _Size(
            self.size.bytes + added.bytes + _member_size(path), self.size.values + added.values
        )

    def _add(self, path: list[str], value: Any) -> None:  # noqa: ANN401 - any JSON value
        if not path:
            self.value = value
            return
        parent, key = self._parent_of(path), path[-1]
        if isinstance(parent, list):
            place = len(parent) if key == "-" else _index(key, len(parent))
            self._shift(parent, place)
            parent.insert(place, value)
        elif isinstance(parent, dict):
            parent[key] = value
        else:
            raise PatchFailed(
                f"{_named(key)} can't be added: its parent is neither an object nor a list"
            )

    def _replace(self, path: list[str], value: Any) -> None:  # noqa: ANN401 - any JSON value
        if not path:
            self.value = value
            return
        parent = self._parent_of(path)
        parent[_place(parent, path[-1])] = value

    def _remove(self, path: list[str]) -> None:
        if not path:
            raise PatchFailed("the whole document can't be removed")
        parent = self._parent_of(path)
        place = _place(parent, path[-1])
        self._shift(parent, place)
        del parent[place]

    def _shift(self, parent: Any, place: Any) -> None:  # noqa: ANN401 - any JSON value
        """Count the items of a list that move because of a change at `place`."""
        if isinstance(parent, list):
            self._shifts += len(parent) - place
            if self._shifts > MAX_SHIFTS:
                raise LimitExceeded(f"moves the items of lists more than {MAX_SHIFTS} times")

    def _copy(self, origin: list[str], path: list[str]) -> None:
        original = look_up(self.value, origin)
        dumped = _dumped(original)
        self._copies.spend(len(dumped))
        self._grow(path, original, dumped)
        # A value in two places could not be changed in place.
        self._add(path, json_text.decode(dumped))

    def _move(self, origin: list[str], path: list[str]) -> None:
        value = look_up(self.value, origin)
        if origin == path:
            return
        if path[: len(origin)] == origin:
            raise PatchFailed("a value can't move into itself")
        self._remove(origin)
        self._add(path, value)
        self.has_deepened = self.has_deepened or len(path) > len(origin)
        self.size = _Size(self.size.bytes + _member_size(path), self.size.values)

    def _test(self, path: list[str], value: Any) -> None:  # noqa: ANN401 - any JSON value
        if not _same(look_up(self.value, path), value):
            raise PatchFailed(f"test failed: {_named('/' + '/'.join(path))} has another value")

    def _parent_of(self, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
        """Return what contains the value at `path`, to be changed in place."""
        parent = self.value = self._owned(self.value)
        for key in path[:-1]:
            place = _place(parent, key)
            child = parent[place] = self._owned(parent[place])
            parent = child
        return parent

    def _owned(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(value, (dict, list)) or id(value) in self._own:
            return value
        copy = value.copy()
        self._own[id(copy)] = copy
        return copy


def parse(pointer: Any) -> list[str]:  # noqa: ANN401 - any JSON value, checked here
    """Return the keys in `pointer`. An empty list means the whole document.

    Raises:
        PatchFailed: It is not a JSON Pointer.
    """
    if not isinstance(pointer, str) or not _POINTER.fullmatch(pointer):
        raise PatchFailed(f"{_named(pointer)} is not a JSON Pointer")
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    # AG-UI's client refuses these, because they would change what all of its objects inherit.
    if "__proto__" in keys or ("constructor", "prototype") in pairwise(keys):
        raise PatchFailed(f"{_named(pointer)} names what JavaScript's objects inherit")
    return keys


def look_up(document: Any, path: list[str]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value at `path`.

    Raises:
        PatchFailed: The path does not exist.
    """
    for key in path:
        document = document[_place(document, key)]
    return document


def _place(document: Any, key: str) -> Any:  # noqa: ANN401 - an index or a key
    """Return the key or index for `key`, which must exist in `document`."""
    if isinstance(document, list):
        return _index(key, len(document) - 1)
    if isinstance(document, dict) and key in document:
        return key
    raise PatchFailed(f"{_named(key)} does not exist")


def _index(key: str, highest: int) -> int:
    if not _INDEX.fullmatch(key) or int(key) > highest:
        raise PatchFailed(f"index {_named(key)} does not exist")
    return int(key)


def _member_size(path: list[str]) -> int:
    """Return the bytes that a member of a list or an object takes beside its value, at most."""
    return len(json_text.encode(path[-1])) + len(":,") if path else 0


def _value(operation: Json) -> Any:  # noqa: ANN401 - any JSON value
    if "value" not in operation:
        raise PatchFailed(f"operation {operation['op']} needs a value")
    return operation["value"]


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Compare as JSON does: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _named(given: object) -> str:
    name = repr(given)
    return name if len(name) <= _NAMED else f"{name[:_NAMED]}…"
