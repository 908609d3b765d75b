"""What goes around everything that is sent for one of the client's frames.

A log's line is spliced in as it is, and rendered once however many sockets it goes to.
"""

from dataclasses import dataclass

import orjson

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import Dialect
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.error_shapes import rest_body, rpc_error
from headrace_gateway.protocols.a2a.hector_shapes import hector_error
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.tasks.cursor import Cursor


@dataclass(frozen=True, slots=True)
class MessageDialect:
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
class HectorDialect:
    """Each event in Hector's shape, whose members stand beside the client's id."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return one piece per event."""
        log, first = entry.stamp.log, entry.generation
        return tuple(
            _beside(f"{log}:{first + offset}", shapes.event(event))
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        )


def _beside(cursor: str, event: Json) -> bytes:
    return b"," + orjson.dumps({"cursor": cursor} | event)[1:]


EVENTS = MessageDialect(b"event")
RESULTS = MessageDialect(b"result")
HECTOR = HectorDialect()


@dataclass(frozen=True, slots=True)
class Envelope:
    """How answers to one frame are worded: in our own shape, or in JSON-RPC's."""

    id: bytes
    """The frame's id, as JSON."""
    rpc: bool = False
    hector: bool = False
    """Whether events, results and errors have Hector's shapes; each message has a response."""

    @property
    def head(self) -> bytes:
        """How every message begins."""
        return b'{"jsonrpc":"2.0","id":' + self.id if self.rpc else b'{"id":' + self.id

    @property
    def dialect(self) -> Dialect:
        """What renders the events."""
        if self.hector:
            return HECTOR
        return RESULTS if self.rpc else EVENTS

    def event(self, cursor: Cursor, event: Json, *, recovered: bool) -> bytes:
        """Return a message with an event that is none of the log's."""
        if self.hector:
            lost = {} if recovered else {"recovered": False}
            return self.head + _beside(str(cursor), lost | shapes.event(event))
        return self.told(str(cursor), orjson.dumps(event), lost=not recovered)

    def told(self, cursor: str, event: bytes, *, lost: bool) -> bytes:
        """Return a message with `event`, JSON, behind which `cursor` goes on."""
        return b'%b%b,"cursor":"%b","%b":%b}' % (
            self.head,
            b',"recovered":false' if lost else b"",
            cursor.encode(),
            (RESULTS if self.rpc else EVENTS).member,
            event,
        )

    def result(self, result: Json) -> bytes:
        """Return the answer to what is answered once."""
        return b'%b,"result":%b}' % (self.head, orjson.dumps(result))

    def end(self) -> bytes:
        """Return what says that nothing more comes."""
        if self.hector:
            return self.head + b',"end":true,' + orjson.dumps(shapes.NOTHING)[1:]
        return self.head + b',"end":true}'

    def error(self, problem: Problem) -> bytes:
        """Return what says why nothing, or nothing more, comes."""
        if self.hector:
            return self.head + b"," + orjson.dumps(hector_error(problem)[1] | shapes.NOTHING)[1:]
        if self.rpc:
            return b'%b,"error":%b}' % (self.head, orjson.dumps(rpc_error(problem)))
        return self.head + b"," + rest_body(problem)[1:]
