"""Conversion between protobuf messages and the JSON of the operations.

Each version of A2A is one `Form`. Events are converted once per feed for all clients.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import InvalidAgentResponseError, InvalidRequestError
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct

from headrace.model import json_text
from headrace.model.cursor import Cursor
from headrace.model.entry import Entry
from headrace.model.events import GENERATION, Json
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.protojson import as_json

CURSOR = "headrace.cursor"
"""Metadata key of each event of a gRPC stream; clients resume with it as ``last-event-id``."""


class Form(Protocol):
    """One version of A2A's gRPC service."""

    service: str
    """Full name of the service."""
    version: str
    """A2A version, major and minor number."""
    operations: Mapping[str, str]
    """Operation names by method."""
    entry_renderer: EntryRenderer
    """Renders each event to one piece of bytes."""

    async def load(self) -> None:
        """Load what converts the messages; nothing else is called before."""

    def read(self, method: str, request: bytes) -> Json:
        """Return the operation's parameters.

        Raises:
            InvalidRequestError: the bytes are not a valid request message.
            Malformed: the request is invalid.
        """

    def response(self, method: str, result: Json) -> bytes:
        """Serialize the operation's result.

        Raises:
            InvalidAgentResponseError: protobuf cannot represent the result.
        """

    def event(self, event: Json, log: str, generation: int) -> bytes:
        """Serialize a StreamResponse with its cursor.

        Raises:
            InvalidAgentResponseError: protobuf cannot represent the event.
        """


def with_cursor(event: Json, log: str, generation: int) -> Json:
    """Return `event` with its cursor in the metadata of its content."""
    [(kind, body)] = event.items()
    metadata = body.get("metadata", {}) | {CURSOR: str(Cursor(log, generation))}
    metadata.setdefault(GENERATION, generation)
    return {kind: body | {"metadata": metadata}}


@dataclass(frozen=True, slots=True)
class EventMessages:
    """Renders a feed's events as protobuf."""

    event: Callable[[Json, str, int], bytes]

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return each event after the first `skip`."""
        log, first = entry.stamp.log, entry.generation
        return tuple(
            self.event(json_text.decode(line), log, first + offset)
            for offset, line in enumerate(entry.lines)
            if offset >= skip
        )


def parsed(kind: type[Message], request: bytes) -> Message:
    """Parse `request`.

    Raises:
        InvalidRequestError: it is not a message of that kind.
    """
    try:
        return kind.FromString(request)
    except DecodeError:
        raise InvalidRequestError(f"the request is not a {kind.DESCRIPTOR.full_name}") from None


def written(kind: type[Message], value: Json) -> bytes:
    """Serialize `value`, ProtoJSON, as a message of that kind.

    Raises:
        InvalidAgentResponseError: the message cannot represent the value.
    """
    try:
        return ParseDict(value, kind(), ignore_unknown_fields=True).SerializeToString()
    except (ParseError, ValueError, TypeError, RecursionError) as error:
        reason = str(error)[:200]
        raise InvalidAgentResponseError(
            f"the response can't be encoded in protobuf: {reason}"
        ) from None


class CurrentForm:
    """``lf.a2a.v1.A2AService``: the messages are ProtoJSON's own."""

    version = PROTOCOL_VERSION_1_0

    def __init__(self) -> None:
        """Read the service descriptor."""
        service = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"]
        self.service = service.full_name
        self._inputs = {m.name: GetMessageClass(m.input_type) for m in service.methods}
        self._outputs = {m.name: GetMessageClass(m.output_type) for m in service.methods}
        # Of an extension: the messages of A2A's schema can't express the parameters.
        self._inputs["ForkTask"], self._outputs["ForkTask"] = Struct, a2a_pb2.Task
        self.operations: Mapping[str, str] = {name: name for name in self._inputs}
        self.entry_renderer: EntryRenderer = EventMessages(self.event)

    async def load(self) -> None:
        """See `Form.load`."""

    def read(self, method: str, request: bytes) -> Json:
        """See `Form.read`."""
        return as_json(parsed(self._inputs[method], request))

    def response(self, method: str, result: Json) -> bytes:
        """See `Form.answer`."""
        return written(self._outputs[method], result or {})

    def event(self, event: Json, log: str, generation: int) -> bytes:
        """See `Form.event`."""
        return written(a2a_pb2.StreamResponse, with_cursor(event, log, generation))


CURRENT = CurrentForm()
