"""What a client may say in one frame, in our own shape or as an A2A JSON-RPC request.

``{"id", "send": SendMessageRequest, "idempotencyKey"?, "after"?}``, ``{"id", "subscribe":
{"task", "after"?}}``, ``{"id", "cancel": {"task"}}``, ``{"unsubscribe": id}``, or
``{"message": …}`` as a variant's clients have it, or
``{"jsonrpc": "2.0", "id", "method", "params", "idempotencyKey"?, "after"?}``.
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
"""Bytes of an id as JSON: every message about it repeats it."""

_KINDS = ("send", "subscribe", "cancel", "unsubscribe")


@dataclass(slots=True)
class Asked:
    """One operation asked for."""

    operation: str
    """A2A's name of it."""
    params: Json
    after: str = ""
    """Cursor to go on behind; empty: the client has none."""
    idempotency_key: str | None = None
    held: HeldBody | None = None
    """The frame that asked."""

    def release(self) -> None:
        """Keep no parameters any more: what is asked for may last."""
        self.params = {}
        if self.held is not None:
            self.held.release()


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End what is open under an id."""

    id: bytes
    """As JSON."""


def envelope_of(frame: Json) -> SocketEnvelope:
    """Return what goes around the answers to `frame`.

    Raises:
        Malformed: its id is too long.
    """
    given = orjson.dumps(frame.get("id"))
    if len(given) > LONGEST_ID:
        raise Malformed([Violation("id", f"must not be longer than {LONGEST_ID} bytes")])
    return SocketEnvelope(given, "jsonrpc" in frame)


def is_variants(frame: Json) -> bool:
    """Tell whether `frame` is a bare message, as a variant's clients send it."""
    return "jsonrpc" not in frame and not frame.keys().isdisjoint(("message", "request"))


def read_frame(variant: Variant, frame: Json) -> Asked | Unsubscribe:
    """Return what `frame` asks for, in A2A's words or in the variant's.

    Raises:
        InvalidRequestError: it asks for nothing, or for several things.
        Malformed: it asks in the wrong way; names the field.
    """
    if "jsonrpc" in frame:
        return _rpc(frame)
    if is_variants(frame):
        # As the variant's clients send it; without an id its answers have null.
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
    """Return what other bindings say in headers: cursor and key."""
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
