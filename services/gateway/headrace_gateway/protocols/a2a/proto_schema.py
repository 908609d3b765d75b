"""What reading needs of a protobuf message's descriptor, worked out once per message type."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, cast

from google.api.field_behavior_pb2 import FieldBehavior, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from headrace_gateway.protocols.a2a.proto_scalars import SCALARS, enum, generation, timestamp


class Free(Enum):
    """JSON without a schema."""

    VALUE = auto()
    """Anything, null too."""
    STRUCT = auto()
    """An object."""


_FREE = {"google.protobuf.Value": Free.VALUE, "google.protobuf.Struct": Free.STRUCT}


@dataclass(frozen=True, slots=True)
class Nested:
    """A message within a message."""

    descriptor: Descriptor

    @property
    def schema(self) -> "Schema":
        """Its schema."""
        return _schema(self.descriptor)


type Kind = Callable[[object], Any] | Free | Nested
"""How one value is read: by a scalar's reader, as free JSON, or as a message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    """Its canonical name, in lowerCamelCase."""
    kind: Kind
    repeated: bool
    required: bool
    oneof: str
    """The oneof that it is a member of; empty: none."""
    default: object
    """What a field without presence holds when it says nothing; a field with presence has None."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of one message."""

    fields: Mapping[str, Field]
    """By each name that a field may be written with."""
    required: tuple[Field, ...]
    oneofs: tuple[tuple[str, ...], ...]
    """The names of each oneof's members; exactly one must be there."""


def _extension(name: str) -> Field:
    return Field(name, generation, repeated=False, required=False, oneof="", default=None)


_EXTENSIONS: Mapping[str, tuple[Field, ...]] = {
    "lf.a2a.v1.GetTaskRequest": (_extension("currentGeneration"),),
    "lf.a2a.v1.SendMessageConfiguration": (_extension("ifGenerationMatch"),),
}
"""Fields that A2A v1.1 will have, offered as an extension (`extensions.GENERATIONS`)."""


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


def _field(one: FieldDescriptor) -> Field:
    oneof = one.containing_oneof
    return Field(
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
    return _FREE.get(one.message_type.full_name) or Nested(one.message_type)


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
