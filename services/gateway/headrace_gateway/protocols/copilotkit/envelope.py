"""CopilotKit's single endpoint, whose request body contains the method, its parameters and body."""

from dataclasses import dataclass
from typing import Self

import orjson
from starlette.requests import Request
from starlette.types import Message

from headrace.model.events import Json
from headrace_gateway.json_errors import InputInvalid, json_object
from headrace_gateway.server.body import RULE


@dataclass(frozen=True, slots=True)
class RuntimeRequest:
    """One request to the single endpoint."""

    method: str
    """``info``, ``agent/run``, ``agent/connect`` or ``agent/stop``."""
    agent: str | None
    thread: str | None
    body: bytes
    """Body of the wrapped request."""

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parse a request body.

        Raises:
            InputInvalid: the body is invalid; the message names the field and the rule.
        """
        request = json_object(body, "the body")
        method = _text(request, "method", "")
        if method is None:
            raise InputInvalid("method: Field required")
        params = _inner(request, "params")
        agent, thread = _text(params, "agentId", "params."), _text(params, "threadId", "params.")
        if method != "info" and agent is None:
            raise InputInvalid("params.agentId: Field required")
        if method == "agent/stop" and thread is None:
            raise InputInvalid("params.threadId: Field required")
        inner = request.get("body")
        try:
            return cls(method, agent, thread, b"" if inner is None else orjson.dumps(inner))
        except orjson.JSONEncodeError:
            # orjson parses deeper nesting than it can serialize.
            raise InputInvalid(f"body: {RULE}") from None

    @staticmethod
    def run_of(body: bytes) -> str | None:
        """Return the ``runId`` in the body of a stop request; None means the newest run.

        Raises:
            InputInvalid: the body is not a JSON object, or ``runId`` is not a non-empty string.
        """
        return _text(json_object(body, "the body"), "runId", "")


def unwrapped(request: Request, envelope: RuntimeRequest) -> Request:
    """Return the request that the envelope wraps."""
    named = {"agent": envelope.agent, "thread": envelope.thread}
    path = {key: value for key, value in named.items() if value is not None}
    body: list[bytes] = [envelope.body]

    async def receive() -> Message:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        return await request.receive()

    return Request({**request.scope, "path_params": path}, receive)


def _inner(request: Json, name: str) -> Json:
    inner = request.get(name)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise InputInvalid(f"{name}: must be an object")
    return inner


def _text(request: Json, name: str, path: str) -> str | None:
    value = request.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise InputInvalid(f"{path}{name}: must be a non-empty string")
    return value
