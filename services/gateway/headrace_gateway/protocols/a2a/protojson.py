"""Reading ProtoJSON by its schema into equivalent plain JSON.

The SDK's parser has two flaws: a ``google.protobuf.Struct`` turns 0 into 0.0, and its errors do not
name the part of the field that is invalid. This module therefore walks the raw JSON along the
message's schema. It makes the parser's checks and also checks that required fields are present. It
uses canonical field names (snake_case is also read), writes enums by name and omits default values.
``data`` and ``metadata`` stay unchanged. Unknown fields are ignored.
"""

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, cast

from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from starlette.datastructures import QueryParams

from headrace.model.events import Json
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.whole_numbers import whole
from headrace_gateway.refusals import Malformed, Violation

_INT32 = range(-(2**31), 2**31)
_GENERATIONS = range(2**63)
_MAX_DIGITS = 100
_URL_SAFE = str.maketrans("-_", "+/")


def as_json(request: Message) -> Json:
    """Return a request as JSON.

    Raises:
        Malformed: it contains a number that JSON has not.
    """
    try:
        found: Json = whole(MessageToDict(request))
    except SerializeToJsonError as error:
        raise Malformed([Violation("", f"is not valid JSON: {error}"[:300])]) from None
    return found


class NotReadable(Exception):
    """The value does not fit the type; the message is the rule that it breaks."""


def string(value: object) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise NotReadable("must be a string")
    return value


def boolean(value: object) -> bool:
    """Check a boolean."""
    if not isinstance(value, bool):
        raise NotReadable("must be true or false")
    return value


def int32(value: object) -> int:
    """Read an integer, which may be written as a string or with a zero fraction."""
    number = _integer(value)
    if number is None or number not in _INT32:
        raise NotReadable("must be a 32-bit integer")
    return number


def generation(value: object) -> int:
    """Read a generation, or 0 for before the first; it may be written as a string."""
    number = _integer(value)
    if number is None or number not in _GENERATIONS:
        raise NotReadable("must be an integer of at least 0")
    return number


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        is_number = value.isascii() and value.removeprefix("-").isdecimal()
        # Python refuses to read thousands of digits.
        return int(value) if is_number and len(value) <= _MAX_DIGITS else None
    return value if isinstance(value, int) else None


def base64(value: object) -> str:
    """Return base64 in the standard alphabet, padded; reads either alphabet, padded or not."""
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
        raise NotReadable("must be an RFC 3339 timestamp, such as 2026-01-31T12:00:00Z") from None
    return moment.ToJsonString()


def enum(descriptor: EnumDescriptor) -> Callable[[object], str]:
    """Return a reader that converts the enum's names or numbers to names."""
    by_name = {value.name: value.name for value in descriptor.values}
    by_number = {value.number: value.name for value in descriptor.values}
    rule = "must be one of " + ", ".join(name for number, name in by_number.items() if number)

    def read(value: object) -> str:
        found = by_name.get(value) if isinstance(value, str) else None
        if found is None and (number := _integer(value)) is not None:
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
"""Readers by field type, for the types in A2A's requests."""


class FreeForm(Enum):
    """JSON without a schema."""

    VALUE = auto()
    """Any value, including null."""
    STRUCT = auto()
    """An object."""


_FREE = {"google.protobuf.Value": FreeForm.VALUE, "google.protobuf.Struct": FreeForm.STRUCT}


@dataclass(frozen=True, slots=True)
class NestedMessage:
    """A message within a message."""

    descriptor: Descriptor

    @property
    def schema(self) -> "Schema":
        """Schema of the message."""
        return _schema(self.descriptor)


type Kind = Callable[[object], Any] | FreeForm | NestedMessage
"""Reader of one value: a scalar's reader, free-form JSON, or a message."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of a message."""

    name: str
    """Canonical name, in lowerCamelCase."""
    kind: Kind
    repeated: bool
    required: bool
    oneof: str
    """The oneof that contains the field; empty if none."""
    default: object
    """Default value of a field without presence; None for a field with presence."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of one message."""

    fields: Mapping[str, SchemaField]
    """By each name that a field may be written with."""
    required: tuple[SchemaField, ...]
    oneofs: tuple[tuple[str, ...], ...]
    """The names of each oneof's members, of which exactly one is required."""


def _extension(name: str) -> SchemaField:
    return SchemaField(name, generation, repeated=False, required=False, oneof="", default=None)


_EXTENSIONS: Mapping[str, tuple[SchemaField, ...]] = {
    "lf.a2a.v1.GetTaskRequest": (_extension("currentGeneration"), _extension("timelineLength")),
    "lf.a2a.v1.SendMessageConfiguration": (_extension("ifGenerationMatch"),),
}
"""Fields planned for A2A 1.1, offered as `extensions.GENERATIONS` and `extensions.TIMELINES`."""


def schema(message: type[Message]) -> Schema:
    """Return the schema of a message."""
    return _schema(cast("Descriptor", message.DESCRIPTOR))


@cache
def _schema(descriptor: Descriptor) -> Schema:
    fields = [(one, _field(one)) for one in descriptor.fields]
    by_name = {name: field for one, field in fields for name in (one.name, field.name)}
    by_name |= {field.name: field for field in _EXTENSIONS.get(descriptor.full_name, ())}
    return Schema(
        by_name,
        tuple(field for _, field in fields if field.required),
        tuple(
            tuple(member.json_name for member in oneof.fields)
            for oneof in descriptor.oneofs
            if _is_real(oneof.name)
        ),
    )


def _field(one: FieldDescriptor) -> SchemaField:
    oneof = one.containing_oneof
    return SchemaField(
        name=one.json_name,
        kind=_kind(one),
        repeated=one.is_repeated,
        required=FieldBehavior.REQUIRED in one.GetOptions().Extensions[field_behavior],
        oneof=oneof.name if oneof is not None and _is_real(oneof.name) else "",
        default=_default(one),
    )


def _kind(one: FieldDescriptor) -> Kind:
    if one.enum_type is not None:
        return enum(one.enum_type)
    if one.message_type is None:
        return SCALARS[one.type]
    if one.message_type.full_name == "google.protobuf.Timestamp":
        return timestamp
    return _FREE.get(one.message_type.full_name) or NestedMessage(one.message_type)


def _default(one: FieldDescriptor) -> object:
    if one.is_repeated:
        return []
    if one.has_presence:
        return None
    if one.enum_type is not None:
        return one.enum_type.values_by_number[0].name
    return one.default_value


def _is_real(oneof: str) -> bool:
    # A proto3 `optional` is a oneof of its own whose name starts with an underscore.
    return not oneof.startswith("_")


def read(message: type[Message], value: object) -> Json:
    """Return `value` as canonical ProtoJSON of that kind of message.

    Raises:
        Malformed: it is not such a message; names every invalid field.
    """
    walk = _Walk()
    result = walk.message(schema(message), value, "")
    if walk.violations:
        raise Malformed(walk.violations)
    return result


class _Walk:
    """One reading; it continues after a violation, to report all of them."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def message(self, of: Schema, value: object, path: str) -> Json:
        if not isinstance(value, dict):
            self._complain(path, "must be an object")
            return {}
        result: Json = {}
        for field, given in self._known(of, value, path):
            read = self._field(field, given, _join(path, field.name))
            if read != field.default or (field.default is None and field.kind is FreeForm.VALUE):
                result[field.name] = read
        self._check_present(of, result, path)
        return result

    def _known(self, of: Schema, value: Json, path: str) -> list[tuple[SchemaField, Any]]:
        seen: dict[str, tuple[SchemaField, Any]] = {}
        for name, given in value.items():
            field = of.fields.get(name)
            if field is None or (given is None and field.kind is not FreeForm.VALUE):
                continue
            if (other := seen.get(field.oneof or field.name)) is not None:
                self._complain(_join(path, field.name), f"can't be combined with {other[0].name}")
            seen[field.oneof or field.name] = field, given
        return list(seen.values())

    def _field(self, field: SchemaField, given: object, path: str) -> object:
        if not field.repeated:
            return self._value(field, given, path)
        if not isinstance(given, list):
            self._complain(path, "must be a list")
            return []
        return [self._value(field, one, f"{path}[{i}]") for i, one in enumerate(given)]

    def _value(self, field: SchemaField, given: object, path: str) -> object:
        kind = field.kind
        if isinstance(kind, FreeForm):
            self._check_free(kind, given, path)
            return given
        if isinstance(kind, NestedMessage):
            return self.message(kind.schema, given, path)
        try:
            return kind(given)
        except NotReadable as fault:
            self._complain(path, str(fault))
            return field.default

    def _check_free(self, kind: FreeForm, given: object, path: str) -> None:
        if kind is FreeForm.STRUCT and not isinstance(given, dict):
            self._complain(path, "must be an object")
        elif is_too_deep(given):
            self._complain(path, RULE)

    def _check_present(self, of: Schema, result: Json, path: str) -> None:
        for field in of.required:
            if field.name not in result and not self._at_fault(_join(path, field.name)):
                rule = "must not be empty" if field.repeated else "is required"
                self._complain(_join(path, field.name), rule)
        for members in of.oneofs:
            if not any(name in result for name in members) and not self._at_fault(path):
                self._complain(path, f"must have one of {', '.join(members)}")

    def _at_fault(self, path: str) -> bool:
        return any(violation.field.startswith(path) for violation in self.violations)

    def _complain(self, path: str, rule: str) -> None:
        self.violations.append(Violation(path, rule))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_BOOLEANS = {"true": True, "false": False}


def from_query(message: type[Message], query: QueryParams) -> Json:
    """Return the fields of the message that `query` names; empty values are ignored.

    Only booleans need conversion: numbers, enums and times may be strings in ProtoJSON.
    """
    fields, found = schema(message).fields, dict[str, object]()
    for name, value in query.items():
        field = fields.get(name)
        if field is None or not value:
            continue
        found[name] = _BOOLEANS.get(value.lower(), value) if field.kind is boolean else value
    return found
