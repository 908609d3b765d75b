"""Query strings as the JSON that they stand for (A2A v1.0.1, 11.5)."""

from google.protobuf.message import Message
from starlette.datastructures import QueryParams

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.proto_scalars import boolean
from headrace_gateway.protocols.a2a.proto_schema import schema

_BOOLEANS = {"true": True, "false": False}


def from_query(message: type[Message], query: QueryParams) -> Json:
    """Return the fields of the message that `query` names; an empty value says nothing.

    Numbers, enums and times may stand as strings in ProtoJSON too; only booleans need turning.
    """
    fields, found = schema(message).fields, dict[str, object]()
    for name, value in query.items():
        field = fields.get(name)
        if field is None or not value:
            continue
        found[name] = _BOOLEANS.get(value.lower(), value) if field.kind is boolean else value
    return found
