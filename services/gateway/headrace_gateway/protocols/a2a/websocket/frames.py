"""The frames of clients, in Headrace's own format or as A2A JSON-RPC requests.

``{"id", "send": SendMessageRequest, "idempotencyKey"?, "after"?}``, ``{"id", "subscribe": {"task",
"after"?}}``, ``{"id", "cancel": {"task"}}``, ``{"unsubscribe": id}``, ``{"message": …}`` in the
form of a variant's clients, or ``{"jsonrpc": "2.0", "id", "method", "params", "idempotencyKey"?,
"after"?}``.
"""

from dataclasses import dataclass

import orjson
from a2a.utils.errors import InvalidRequestError

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.variants import Variant
from headrace_gateway.protocols.a2a.websocket.envelope import SocketEnvelope
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.held_bodies import HeldBody

LONGEST_ID = 256
"""Maximum bytes of an id as JSON, because every answer repeats it."""

_KINDS = ("send", "subscribe", "cancel", "unsubscribe")


@dataclass(slots=True)
class Asked:
    """One requested operation."""

    operation: str
    """A2A's name of the operation."""
    params: Json
    after: str = ""
    """Cursor after which to resume; empty if the client has none."""
    idempotency_key: str | None = None
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
        Malformed: the id is too long.
    """
    given = orjson.dumps(frame.get("id"))
    if len(given) > LONGEST_ID:
        raise Malformed([Violation("id", f"must not be longer than {LONGEST_ID} bytes")])
    return SocketEnvelope(given, "jsonrpc" in frame)


def is_variants(frame: Json) -> bool:
    """Return whether `frame` is a bare message in the form of a variant's clients."""
    return "jsonrpc" not in frame and not frame.keys().isdisjoint(("message", "request"))


def read_frame(variant: Variant, frame: Json) -> Asked | Unsubscribe:
    """Parse a frame in A2A's or the variant's form.

    Raises:
        InvalidRequestError: it contains no request, or several.
        Malformed: a field is invalid; names the field.
    """
    if "jsonrpc" in frame:
        return _rpc(frame)
    if is_variants(frame):
        # In the form of the variant's clients; without an id, its answers have null.
        return Asked("SendStreamingMessage", variant.complete(frame), *_beside(frame))
    kinds = [kind for kind in _KINDS if kind in frame]
    if len(kinds) != 1:
        raise InvalidRequestError(f"a frame has one of {', '.join(_KINDS)}, or is JSON-RPC 2.0")
    if kinds == ["unsubscribe"]:
        return Unsubscribe(orjson.dumps(frame["unsubscribe"]))
    if "id" not in frame:
        raise Malformed([Violation("id", "is required")])
    body = _object(frame, kinds[0])
    match kinds[0]:
        case "send":
            return Asked("SendStreamingMessage", body, *_beside(frame))
        case "subscribe":
            return Asked("SubscribeToTask", _task(body, "subscribe"), _text(body, "after") or "")
        case _:
            return Asked("CancelTask", _task(body, "cancel"))


def _rpc(frame: Json) -> Asked:
    if frame["jsonrpc"] != "2.0" or "id" not in frame:
        raise InvalidRequestError('jsonrpc must be "2.0", and there must be an id')
    method = _text(frame, "method")
    if not method:
        raise InvalidRequestError("method must be a string")
    params = _object(frame, "params") if "params" in frame else {}
    return Asked(method, params, *_beside(frame))


def _beside(frame: Json) -> tuple[str, str | None]:
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
