"""The envelope of every message sent in answer to one of the client's frames.

A log's lines are spliced in unchanged and rendered once for all sockets.
"""

from dataclasses import dataclass

import orjson

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.errors import rest_body, rpc_error
from headrace_gateway.protocols.a2a.variants import VariantShapes
from headrace_gateway.tasks.ids import Cursor


@dataclass(frozen=True, slots=True)
class SocketEvents:
    """Each event as the end of one message, after the client's id."""

    member: bytes
    """Name of the event's member."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return one piece per event."""
        log, first = entry.stamp.log.encode(), entry.generation
        return tuple(
            b',"cursor":"%b:%d","%b":%b}' % (log, first + offset, self.member, line)
            for offset, line in enumerate(entry.lines)
            if offset >= skip
        )


@dataclass(frozen=True, slots=True)
class ShapedEvents:
    """Each event in a variant's shape, whose members follow the client's id."""

    shapes: VariantShapes

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return one piece per event."""
        log, first = entry.stamp.log, entry.generation
        return tuple(
            _beside(f"{log}:{first + offset}", self.shapes.event(event))
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        )


def _beside(cursor: str, event: Json) -> bytes:
    return b"," + orjson.dumps({"cursor": cursor} | event)[1:]


EVENTS = SocketEvents(b"event")
RESULTS = SocketEvents(b"result")


@dataclass(frozen=True, slots=True)
class SocketEnvelope:
    """Format of the answers to one frame: Headrace's own, or JSON-RPC's."""

    id: bytes
    """The frame's id, as JSON."""
    rpc: bool = False
    shapes: VariantShapes | None = None
    """Shapes of events, results and errors in a variant; None for A2A's own."""

    @property
    def head(self) -> bytes:
        """Start of every message."""
        return b'{"jsonrpc":"2.0","id":' + self.id if self.rpc else b'{"id":' + self.id

    @property
    def entry_renderer(self) -> EntryRenderer:
        """Renders the events."""
        if self.shapes is not None:
            return ShapedEvents(self.shapes)
        return RESULTS if self.rpc else EVENTS

    def event(self, cursor: Cursor, event: Json, *, recovered: bool) -> bytes:
        """Return a message with an event that does not come from the log."""
        if self.shapes is not None:
            lost = {} if recovered else {"recovered": False}
            return self.head + _beside(str(cursor), lost | self.shapes.event(event))
        return self.message(str(cursor), event, lost=not recovered)

    def message(self, cursor: str, event: Json, *, lost: bool) -> bytes:
        """Return a message with `event` and the `cursor` after which to resume."""
        return b'%b%b,"cursor":"%b","%b":%b}' % (
            self.head,
            b',"recovered":false' if lost else b"",
            cursor.encode(),
            (RESULTS if self.rpc else EVENTS).member,
            orjson.dumps(event),
        )

    def result(self, operation: str, result: Json) -> bytes:
        """Return the answer of an operation that does not stream."""
        if self.shapes is not None:
            result = self.shapes.empty | self.shapes.answer(operation, result)
        return b'%b,"result":%b}' % (self.head, orjson.dumps(result))

    def end(self) -> bytes:
        """Return the message that ends a stream."""
        if self.shapes is not None:
            return self.head + b',"end":true,' + orjson.dumps(self.shapes.empty)[1:]
        return self.head + b',"end":true}'

    def error(self, problem: Problem) -> bytes:
        """Return the message that reports an error."""
        if self.shapes is not None:
            _, content = self.shapes.error(problem)
            return self.head + b"," + orjson.dumps(content | self.shapes.empty)[1:]
        if self.rpc:
            return b'%b,"error":%b}' % (self.head, orjson.dumps(rpc_error(problem)))
        return self.head + b"," + rest_body(problem)[1:]
