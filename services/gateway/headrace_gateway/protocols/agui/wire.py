"""Protobuf's wire format, as far as the protocol's binary form needs it."""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.model.events import Json

type Write = Callable[[Any], bytes]
"""From a value to its bytes, with neither field number nor length."""

_VARINT, _FIXED_64, _BYTES = 0, 1, 2
_MOST_INDEX = 2**32 - 2
_INDEX_DIGITS = 10


def varint(number: int) -> bytes:
    """Return `number` in base 128, the least significant digit first; negative ones as 64 bits."""
    number &= 2**64 - 1
    digits = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def tagged(number: int, content: bytes, *, is_varint: bool = False) -> bytes:
    """Return a field: its number, and its content with its length or as the number that it is."""
    if is_varint:
        return varint(number << 3 | _VARINT) + content
    return varint(number << 3 | _BYTES) + varint(len(content)) + content


def text(value: str) -> bytes:
    """Return a string's bytes."""
    return value.encode()


def value_bytes(value: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return a google.protobuf.Value."""
    match value:
        case None:
            return tagged(1, b"\0", is_varint=True)
        case bool():
            return tagged(4, bytes([value]), is_varint=True)
        case int() | float():
            return varint(2 << 3 | _FIXED_64) + struct.pack("<d", value)
        case str():
            return tagged(3, value.encode())
        case dict():
            return tagged(5, object_bytes(value))
        case _:
            items: Iterable[Any] = value
            return tagged(6, b"".join([tagged(1, value_bytes(item)) for item in items]))


def object_bytes(value: Mapping[str, Any]) -> bytes:
    """Return a google.protobuf.Struct, its fields in the order in which JavaScript has them."""
    return b"".join([tagged(1, _entry(key, value[key])) for key in _in_order(value)])


def _entry(key: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON
    return (tagged(1, key.encode()) if key else b"") + tagged(2, value_bytes(value))


def _in_order(value: Mapping[str, Any]) -> Iterable[str]:
    """Return the keys: those that are array indices first, by number."""
    if not any(key[:1].isdecimal() for key in value):
        return value
    indices = sorted((key for key in value if _is_index(key)), key=int)
    return [*indices, *(key for key in value if not _is_index(key))]


def _is_index(key: str) -> bool:
    if not (key.isascii() and key.isdecimal() and len(key) <= _INDEX_DIGITS):
        return False
    return str(int(key)) == key and int(key) <= _MOST_INDEX


type Field = tuple[str, int, Write, str]
"""Name, number, what writes a value, and ``?``, ``!`` or ``*`` as the schema has it."""


def message(fields: list[Field], numbers: frozenset[int], body: Json) -> bytes:
    """Return `body` as a message of these fields, of which those in `numbers` are numbers."""
    pieces: list[bytes] = []
    for name, number, write, presence in fields:
        value = body.get(name)
        is_varint = number in numbers
        if presence == "*":
            pieces += [tagged(number, write(item)) for item in value or ()]
        elif presence:
            if value is not None or (presence == "!" and name in body):
                pieces.append(tagged(number, write(value), is_varint=is_varint))
        elif value:
            pieces.append(tagged(number, write(value), is_varint=is_varint))
    return b"".join(pieces)
