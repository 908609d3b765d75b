"""JSON Schemas of protobuf messages as ProtoJSON has them, from their descriptors."""

from collections.abc import Iterable, Iterator
from typing import cast

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from headrace.model.events import Json
from headrace_gateway.openapi.operation import ref

_WELL_KNOWN: dict[str, Json] = {
    "google.protobuf.Empty": {"type": "object"},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Value": {},
}

_SCALARS: dict[int, Json] = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"type": "number"},
    FieldDescriptor.CPPTYPE_FLOAT: {"type": "number"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_INT64: {"type": ["string", "integer"]},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": ["string", "integer"]},
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
}


def schemas_of(messages: Iterable[type[Message]]) -> dict[str, Json]:
    """Return the schemas of the messages, and of those in their fields, by their names."""
    found: dict[str, Json] = {}
    left = [cast("Descriptor", message.DESCRIPTOR) for message in messages]
    while left:
        descriptor = left.pop()
        if descriptor.name not in found and descriptor.full_name not in _WELL_KNOWN:
            found[descriptor.name] = _message(descriptor)
            left += _inner(descriptor)
    return found


def schema_of_field(field: FieldDescriptor) -> Json:
    """Return the schema of a field's value."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        values = schema_of_field(inner.fields_by_name["value"])
        return {"type": "object", "additionalProperties": values}
    one = _one(field)
    return {"type": "array", "items": one} if field.is_repeated else one


def _one(field: FieldDescriptor) -> Json:
    if field.message_type is not None:
        return _WELL_KNOWN.get(field.message_type.full_name, ref(field.message_type.name))
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return {"type": "string", "contentEncoding": "base64"}
    return _SCALARS[field.cpp_type]


def _enum(enum: EnumDescriptor) -> Json:
    return {"type": "string", "enum": [value.name for value in enum.values]}


def _message(descriptor: Descriptor) -> Json:
    schema: Json = {
        "type": "object",
        "properties": {field.json_name: schema_of_field(field) for field in descriptor.fields},
    }
    if required := [field.json_name for field in descriptor.fields if _is_required(field)]:
        schema["required"] = required
    return schema


def _is_required(field: FieldDescriptor) -> bool:
    # An empty list is left out by ProtoJSON.
    stated = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in stated and not field.is_repeated


def _inner(descriptor: Descriptor) -> Iterator[Descriptor]:
    for field in descriptor.fields:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            inner = inner.fields_by_name["value"].message_type
        if inner is not None:
            yield inner
