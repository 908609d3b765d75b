"""The scalar values of ProtoJSON: what may stand for each type, and its one canonical form."""

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

_INT32 = range(-(2**31), 2**31)
_GENERATIONS = range(2**63)
_URL_SAFE = str.maketrans("-_", "+/")


class NotReadable(Exception):
    """The value can't be of that type; the message is the rule that it breaks."""


def string(value: object) -> str:
    """Return a string as it is."""
    if not isinstance(value, str):
        raise NotReadable("must be a string")
    return value


def boolean(value: object) -> bool:
    """Return a boolean as it is."""
    if not isinstance(value, bool):
        raise NotReadable("must be true or false")
    return value


def int32(value: object) -> int:
    """Return an integer, which may be written as a string or with a zero fraction."""
    number = _whole(value)
    if number is None or number not in _INT32:
        raise NotReadable("must be a whole number of 32 bits")
    return number


def generation(value: object) -> int:
    """Return a generation, or 0 for before the first; it may be written as a string."""
    number = _whole(value)
    if number is None or number not in _GENERATIONS:
        raise NotReadable("must be a whole number that is not negative")
    return number


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        return int(value) if value.removeprefix("-").isdecimal() and value.isascii() else None
    return value if isinstance(value, int) else None


def base64(value: object) -> str:
    """Return base64 in the standard alphabet, padded; either alphabet is read, padded or not."""
    try:
        text = string(value).translate(_URL_SAFE).rstrip("=")
        decoded = a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (NotReadable, NotBase64, ValueError):
        raise NotReadable("must be base64") from None
    return b2a_base64(decoded, newline=False).decode()


def timestamp(value: object) -> str:
    """Return an RFC 3339 time in UTC."""
    moment = Timestamp()
    try:
        moment.FromJsonString(string(value))
    except (NotReadable, ValueError):
        raise NotReadable("must be a time as in RFC 3339, like 2026-01-31T12:00:00Z") from None
    return moment.ToJsonString()


def enum(descriptor: EnumDescriptor) -> Callable[[object], str]:
    """Return what reads the enum's names, or its numbers, as names."""
    by_name = {value.name: value.name for value in descriptor.values}
    by_number = {value.number: value.name for value in descriptor.values}
    rule = "must be one of " + ", ".join(name for number, name in by_number.items() if number)

    def read(value: object) -> str:
        found = by_name.get(value) if isinstance(value, str) else None
        if found is None and (number := _whole(value)) is not None:
            found = by_number.get(number)
        if found is None:
            raise NotReadable(rule)
        return found

    return read


SCALARS: Mapping[int, Callable[[object], Any]] = {
    FieldDescriptor.TYPE_STRING: string,
    FieldDescriptor.TYPE_BOOL: boolean,
    FieldDescriptor.TYPE_INT32: int32,
    FieldDescriptor.TYPE_BYTES: base64,
}
"""By field type: those that A2A's requests use."""
