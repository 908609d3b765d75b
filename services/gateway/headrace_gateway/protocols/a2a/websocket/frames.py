"""The frames of clients, and the messages that answer them.

A client's frame is in Headrace's own format or an A2A JSON-RPC request:
``{"id", "send": SendMessageRequest, "idempotencyKey"?, "after"?}``, ``{"id", "subscribe": {"task",
"after"?}}``, ``{"id", "cancel": {"task"}}``, ``{"id", "fork": {"task", "generation"?, "message"?,
"metadata"?}, "idempotencyKey"?}``, ``{"unsubscribe": id}``, ``{"message": …}`` in the form of
Hector's clients, or ``{"jsonrpc": "2.0", "id", "method", "params", "idempotencyKey"?,
"after"?}``. Each request may also have a ``traceparent``. Answers contain a log's lines unchanged,
rendered once for all sockets.
"""

from dataclasses import dataclass

from a2a.utils.errors import InvalidRequestError

from headrace.model import json_text
from headrace.model.cursor import Cursor
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.nesting import RULE, is_too_deep
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.errors import rest_body, rpc_error
from headrace_gateway.protocols.a2a.follow import CONTEXT, FOLLOW
from headrace_gateway.protocols.hector import forms, shapes
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import HeldBody


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
    """Each event in Hector's shape, whose members follow the client's id."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return one piece per event."""
        log, first = entry.stamp.log, entry.generation
        return tuple(
            _with_cursor(f"{log}:{first + offset}", shapes.event(event))
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        )


def _with_cursor(cursor: str, event: Json) -> bytes:
    return b"," + json_text.encode({"cursor": cursor} | event)[1:]


_SHAPED = ShapedEvents()
EVENTS = SocketEvents(b"event")
RESULTS = SocketEvents(b"result")


@dataclass(frozen=True, slots=True)
class SocketEnvelope:
    """Format of the answers to one frame: Headrace's own, or JSON-RPC's."""

    id: bytes
    """The frame's id, as JSON."""
    rpc: bool = False
    is_hectors: bool = False
    """Whether events, results and errors have Hector's shapes."""

    @property
    def head(self) -> bytes:
        """Start of every message."""
        return b'{"jsonrpc":"2.0","id":' + self.id if self.rpc else b'{"id":' + self.id

    @property
    def entry_renderer(self) -> EntryRenderer:
        """Renders the events."""
        if self.is_hectors:
            return _SHAPED
        return RESULTS if self.rpc else EVENTS

    def event(self, cursor: Cursor, event: Json, *, recovered: bool) -> bytes:
        """Return a message with an event that does not come from the log."""
        if self.is_hectors:
            lost = {} if recovered else {"recovered": False}
            return self.head + _with_cursor(str(cursor), lost | shapes.event(event))
        return self.message(str(cursor), event, lost=not recovered)

    def message(self, cursor: str, event: Json, *, lost: bool) -> bytes:
        """Return a message with `event` and the `cursor` after which to resume."""
        return b'%b%b,"cursor":"%b","%b":%b}' % (
            self.head,
            b',"recovered":false' if lost else b"",
            cursor.encode(),
            (RESULTS if self.rpc else EVENTS).member,
            json_text.encode(event),
        )

    def line(self, cursor: str, line: bytes) -> bytes:
        """Return a message with an event as it is in the log."""
        member = (RESULTS if self.rpc else EVENTS).member
        return b'%b,"cursor":"%b","%b":%b}' % (self.head, cursor.encode(), member, line)

    def result(self, operation: str, result: Json) -> bytes:
        """Return the answer of an operation that does not stream."""
        if self.is_hectors:
            result = shapes.EMPTY | shapes.answered(operation, result)
        return b'%b,"result":%b}' % (self.head, json_text.encode(result))

    def end(self) -> bytes:
        """Return the message that ends a stream."""
        if self.is_hectors:
            return self.head + b',"end":true,' + json_text.encode(shapes.EMPTY)[1:]
        return self.head + b',"end":true}'

    def error(self, problem: Problem) -> bytes:
        """Return the message that reports an error."""
        if self.is_hectors:
            _, content = forms.error(problem)
            return self.head + b"," + json_text.encode(content | shapes.EMPTY)[1:]
        if self.rpc:
            return b'%b,"error":%b}' % (self.head, json_text.encode(rpc_error(problem)))
        return self.head + b"," + rest_body(problem)[1:]


LONGEST_ID = 256
"""Maximum bytes of an id as JSON, because every answer repeats it."""

_KINDS = ("send", "subscribe", "follow", "cancel", "fork", "unsubscribe")


@dataclass(slots=True)
class OperationRequest:
    """One requested operation."""

    operation: str
    """A2A's name of the operation."""
    params: Json
    after: str = ""
    """Cursor after which to resume; empty if the client has none."""
    idempotency_key: str | None = None
    traceparent: str | None = None
    """W3C trace context; None: that of the connection."""
    held: HeldBody | None = None
    """The bytes held for the frame."""

    def release(self) -> None:
        """Free the parameters, because the operation may take long."""
        self.params = {}
        if self.held is not None:
            self.held.release()


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Request to end the operation with an id."""

    id: bytes
    """The id as JSON."""


def envelope_of(frame: Json) -> SocketEnvelope:
    """Return the envelope for the answers to `frame`.

    Raises:
        Malformed: the id is too long or nested too deep.
    """
    return SocketEnvelope(_id(frame, "id"), "jsonrpc" in frame)


def _id(frame: Json, name: str) -> bytes:
    value = frame.get(name)
    if is_too_deep(value):
        raise Malformed([Violation(name, RULE)])
    given = json_text.encode(value)
    if len(given) > LONGEST_ID:
        raise Malformed([Violation(name, f"must not be longer than {LONGEST_ID} bytes")])
    return given


def is_hectors(frame: Json) -> bool:
    """Return whether `frame` is a bare message in the form of Hector's clients."""
    return "jsonrpc" not in frame and not frame.keys().isdisjoint(("message", "request"))


def read_frame(frame: Json) -> OperationRequest | Unsubscribe:
    """Parse a frame in A2A's or Hector's form.

    Raises:
        InvalidRequestError: it contains no request, or several.
        Malformed: a field is invalid; names the field.
    """
    request = _request(frame)
    if isinstance(request, OperationRequest):
        request.traceparent = _text(frame, "traceparent")
    return request


def _request(frame: Json) -> OperationRequest | Unsubscribe:
    if "jsonrpc" in frame:
        return _rpc(frame)
    if is_hectors(frame):
        # In the form of Hector's clients; without an id, its answers have null.
        return OperationRequest(
            "SendStreamingMessage", forms.completed(frame), *_cursor_and_key(frame)
        )
    kinds = [kind for kind in _KINDS if kind in frame]
    if len(kinds) != 1:
        raise InvalidRequestError(
            f"a frame must have one of {', '.join(_KINDS)} or be JSON-RPC 2.0"
        )
    if kinds == ["unsubscribe"]:
        return Unsubscribe(_id(frame, "unsubscribe"))
    if "id" not in frame:
        raise Malformed([Violation("id", "is required")])
    return _own(frame, kinds[0])


def _own(frame: Json, kind: str) -> OperationRequest:
    """Read a frame in Headrace's own format."""
    body = _object(frame, kind)
    match kind:
        case "send":
            return OperationRequest("SendStreamingMessage", body, *_cursor_and_key(frame))
        case "subscribe":
            return OperationRequest(
                "SubscribeToTask", _task(body, "subscribe"), _text(body, "after") or ""
            )
        case "follow":
            return OperationRequest(
                FOLLOW, {CONTEXT: body.get("context")}, _text(body, "after") or ""
            )
        case "fork":
            params = {**body, **_task(body, "fork")}
            return OperationRequest("ForkTask", params, *_cursor_and_key(frame))
        case _:
            return OperationRequest("CancelTask", _task(body, "cancel"))


def _rpc(frame: Json) -> OperationRequest:
    if frame["jsonrpc"] != "2.0" or "id" not in frame:
        raise InvalidRequestError('jsonrpc must be "2.0", and an id is required')
    method = _text(frame, "method")
    if not method:
        raise InvalidRequestError("method must be a string")
    params = _object(frame, "params") if "params" in frame else {}
    return OperationRequest(method, params, *_cursor_and_key(frame))


def _cursor_and_key(frame: Json) -> tuple[str, str | None]:
    """Return the cursor and the key, which other bindings have in headers."""
    return _text(frame, "after") or "", _text(frame, "idempotencyKey")


def _task(body: Json, kind: str) -> Json:
    task = body.get("task")
    if not isinstance(task, str) or not task:
        raise Malformed([Violation(f"{kind}.task", "must be a task's id")])
    return {"id": task}


def _object(frame: Json, name: str) -> Json:
    value = frame[name]
    if not isinstance(value, dict):
        raise Malformed([Violation(name, "must be an object")])
    return value


def _text(frame: Json, name: str) -> str | None:
    value = frame.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed([Violation(name, "must be a string")])
    return value
