"""Hector's forms on A2A's routes: shorter requests, and other shapes of answers and events.

A JSON-RPC call at ``/rpc`` and ``…/stream`` may name the agent in ``params.name``. Methods have the
names of 0.3. Their parameters and results are those of 1.0, unless the request states a version or
contains something that only 0.3 has.
"""

from starlette.requests import Request

from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.streaming.sse import frame
from headrace_gateway.tasks.ids import mint_message_id

_USER = "ROLE_USER"
_ROLES = {
    "user": _USER,
    # The sender of a message is the receiving agent's user, even if it is an assistant.
    "assistant": _USER,
    "ROLE_ASSISTANT": _USER,
    "agent": "ROLE_AGENT",
}

_NAMES = {
    "content": "parts",
    "message_id": "messageId",
    "context_id": "contextId",
    "task_id": "taskId",
}
"""Older field names and their current names; the current name takes precedence."""


def completed(params: Json) -> Json:
    """Return SendMessage's parameters with renamed and omitted fields in A2A's form.

    The message may be in ``request`` and its parts in ``content``. A message without an id gets
    one; a message without a role gets the user's. Other errors remain for A2A's validation.
    """
    message = params.get("message", params.get("request"))
    if not isinstance(message, dict):
        return params
    named = {_NAMES.get(name, name): value for name, value in message.items()} | message
    given = {name: value for name, value in named.items() if name not in _NAMES}
    whole = {"messageId": mint_message_id(), **given, "role": _role(message.get("role"))}
    rest = {key: value for key, value in params.items() if key != "request"}
    return {**rest, "message": whole}


def _role(stated: object) -> object:
    if stated is None:
        return _USER
    return _ROLES.get(stated, stated) if isinstance(stated, str) else stated


_METHODS = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "card/get": "GetAgentCard",
    "tasks/get": "GetTask",
    "tasks/list": "ListTasks",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/subscribe": "SubscribeToTask",
}
SENDS = ("SendMessage", "SendStreamingMessage")
"""Operations whose parameters contain a message."""


def adapted(
    request: Request, method: str, params: Json, *, is_short: bool
) -> tuple[Request, str, Json]:
    """Return the request to the agent it names, and A2A's method and parameters.

    Raises:
        Malformed: the agent's name is not a string.
    """
    params = dict(params)
    request = _to(request, params.pop("name", None))
    if not is_short:
        return request, method, params
    method = _METHODS.get(method, method)
    if method in SENDS:
        params = completed(params)
    elif "task_id" in params:
        params.setdefault("id", params.pop("task_id"))
    return request, method, params


def _to(request: Request, name: object) -> Request:
    if name is None:
        return request
    if not isinstance(name, str):
        raise Malformed([Violation("name", "must be the name of an agent")])
    scope = {**request.scope, "path_params": {**request.path_params, "agent": name}}
    return Request(scope, request.receive)


class MessageEvents:
    """Events over REST in Hector's shape, each named ``message``."""

    name = "message"

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames."""
        log, first = entry.stamp.log, entry.generation
        frames = [
            frame(f"{log}:{first + offset}", json_text.encode(shapes.event(event)), self.name)
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        ]
        return (b"".join(frames),)


ENTRY_RENDERER = MessageEvents()


def error(problem: Problem) -> tuple[int, Json]:
    """Return the HTTP status and body of a problem."""
    details: Json = {"reason": problem.reason, **problem.metadata}
    if problem.violations:
        details["fields"] = {one.field: one.rule for one in problem.violations}
    return shapes.refused(problem.grpc_status, problem.message, details)
