"""What an OpenAPI document says of routes: the terms in which each protocol's folder does.

A folder's ``openapi.py`` has one `ApiSection`. It is imported with the first request for the
document, because its models are a large import.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message
from pydantic import BaseModel

from headrace.model.events import Json
from headrace_gateway.streaming.sse import EVENT_STREAM

SCHEMAS = "#/components/schemas/"

JSON_BODY = "application/json"

TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
TIME: Json = {"type": "string", "format": "date-time"}
ANY_OBJECT: Json = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation of the document: a method of a path."""

    method: str
    path: str
    """As of the route, with its parameters in braces."""
    name: str
    """The operation's id, unique in the document."""
    summary: str
    answers: Mapping[int, Json]
    """Response objects by status."""
    query: Mapping[str, Json] = field(default_factory=dict)
    """Schemas of the query parameters by name."""
    headers: Mapping[str, Json] = field(default_factory=dict)
    """Schemas of the request's headers by name."""
    body: Json | None = None
    """The request body object. None: the operation has no body."""
    is_public: bool = False
    """Whether no credentials are needed, also where the fleet requires some."""


@dataclass(frozen=True, slots=True)
class ApiSection:
    """The operations of one protocol, and the schemas that they refer to."""

    name: str
    description: str
    operations: Sequence[ApiOperation]
    error: Json
    """The schema of its error responses."""
    schemas: Mapping[str, Json] = field(default_factory=dict)
    """By name."""
    models: Sequence[type[BaseModel]] = ()
    """Models whose schemas are named like them."""
    messages: Sequence[type[Message]] = ()
    """Protobuf messages whose ProtoJSON schemas are named like them."""


def ref(name: str | type[BaseModel | Message]) -> Json:
    """Return the reference to a schema: by its name, or of a model or message."""
    return {"$ref": SCHEMAS + (name if isinstance(name, str) else name.__name__)}


def described(schema: Json, description: str) -> Json:
    """Return the schema with a description."""
    return schema | {"description": description}


def one_of(*values: str) -> Json:
    """Return the schema of a text that is one of `values`."""
    return {"type": "string", "enum": list(values)}


def or_null(schema: Json) -> Json:
    """Return the schema of a value that may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def whole(least: int, most: int, usual: int) -> Json:
    """Return the schema of a whole number with its bounds and its default."""
    return {"type": "integer", "minimum": least, "maximum": most, "default": usual}


def members(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """Return the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def answer(schema: Json, description: str = "Done.", *, status: int = 200) -> Mapping[int, Json]:
    """Return the answer of an operation: JSON with that schema."""
    return {status: {"description": description, "content": {JSON_BODY: {"schema": schema}}}}


def events(description: str, schema: Json | None = None) -> Mapping[int, Json]:
    """Return the answer of an operation: server-sent events; with a `schema`, or JSON with it."""
    content: Json = {EVENT_STREAM: {"schema": TEXT}}
    if schema is not None:
        content[JSON_BODY] = {"schema": schema}
    return {200: {"description": description, "content": content}}


def body(schema: Json, *, may_be_empty: bool = False) -> Json:
    """Return the body of a request: JSON with that schema."""
    return {"required": not may_be_empty, "content": {JSON_BODY: {"schema": schema}}}
