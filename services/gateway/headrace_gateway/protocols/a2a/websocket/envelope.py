"""What goes around everything that is sent for one of the client's frames.

A log's line is spliced in as it is, and rendered once however many sockets it goes to.
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
    """Each event as the end of one message, behind the client's id."""

    member: bytes
    """Under which name the event stands."""

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
    """Each event in a variant's shape, whose members stand beside the client's id."""

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
    """How answers to one frame are worded: in our own shape, or in JSON-RPC's."""

    id: bytes
    """The frame's id, as JSON."""
    rpc: bool = False
    shapes: VariantShapes | None = None
    """Which a variant's events, results and errors have; None: A2A's own."""

    @property
    def head(self) -> bytes:
        """How every message begins."""
        return b'{"jsonrpc":"2.0","id":' + self.id if self.rpc else b'{"id":' + self.id

    @property
    def entry_renderer(self) -> EntryRenderer:
        """What renders the events."""
        if self.shapes is not None:
            return ShapedEvents(self.shapes)
        return RESULTS if self.rpc else EVENTS

    def event(self, cursor: Cursor, event: Json, *, recovered: bool) -> bytes:
        """Return a message with an event that is none of the log's."""
        if self.shapes is not None:
            lost = {} if recovered else {"recovered": False}
            return self.head + _beside(str(cursor), lost | self.shapes.event(event))
        return self.message(str(cursor), event, lost=not recovered)

    def message(self, cursor: str, event: Json, *, lost: bool) -> bytes:
        """Return a message with `event`, behind which `cursor` goes on."""
        return b'%b%b,"cursor":"%b","%b":%b}' % (
            self.head,
            b',"recovered":false' if lost else b"",
            cursor.encode(),
            (RESULTS if self.rpc else EVENTS).member,
            orjson.dumps(event),
        )

    def result(self, operation: str, result: Json) -> bytes:
        """Return the answer to what is answered once."""
        if self.shapes is not None:
            result = self.shapes.empty | self.shapes.answer(operation, result)
        return b'%b,"result":%b}' % (self.head, orjson.dumps(result))

    def end(self) -> bytes:
        """Return what says that nothing more comes."""
        if self.shapes is not None:
            return self.head + b',"end":true,' + orjson.dumps(self.shapes.empty)[1:]
        return self.head + b',"end":true}'

    def error(self, problem: Problem) -> bytes:
        """Return what says why nothing, or nothing more, comes."""
        if self.shapes is not None:
            _, content = self.shapes.error(problem)
            return self.head + b"," + orjson.dumps(content | self.shapes.empty)[1:]
        if self.rpc:
            return b'%b,"error":%b}' % (self.head, orjson.dumps(rpc_error(problem)))
        return self.head + b"," + rest_body(problem)[1:]
