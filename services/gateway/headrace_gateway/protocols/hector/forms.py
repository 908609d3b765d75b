"""Hector's forms on A2A's routes: shorter requests, other answers and other events.

A JSON-RPC call at ``/rpc`` and ``…/stream`` may name the agent in ``params.name``. Methods have the
names of 0.3. Their parameters and results are those of 1.0, unless the request states a version or
contains something that only 0.3 has.
"""

from collections.abc import Callable

from starlette.requests import Request

from headrace.model import json_text
from headrace.model.cursor import FrameCursor
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.feeds import Feed
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.protocols.hector.events import DONE, HectorEvent, sse
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.renderer import HectorRenderer, behind
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.streaming.renderer import Interruption, Messages
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


def read_from(cursor: str) -> str:
    """Return the A2A cursor after which the log must be read for a client at `cursor`."""
    place = FrameCursor.parse(cursor)
    # Possibly with earlier events: the cursor may be inside those of its generation.
    return cursor if place is None else f"{place.log}:{max(place.generation - 1, 1)}"


async def nothing_left(feed: Feed, start: int, cursor: str) -> bool:
    """Return whether `cursor` is the end of a log that has ended; folds the log to find out."""
    after = behind(cursor)
    if after is None or not feed.ended or after[0] < feed.head:
        return False
    fold, reader, last = HectorFold(), feed.reader(start), (0, 0)
    while blocks := await reader.read():
        for block in blocks:
            last = max([last, *(event.place for event in fold.read(block.entry, start))])
    return after >= last


def frames(log: str, start: int, cursor: str, ending: bytes) -> HectorRenderer:
    """Return a renderer of the events after `cursor` as server-sent events.

    The fold starts after generation `start`; cursors start with `log`.
    """

    def encode(events: list[HectorEvent]) -> Messages:
        return (sse(log, events),) if events else ()

    return HectorRenderer(start, behind(cursor), encode, (ending or DONE,))


def messages(
    log: str,
    start: int,
    cursor: str,
    *,
    message: Callable[[str, Json], bytes],
    ending: Messages,
    interrupted: Callable[[Interruption], Messages],
) -> HectorRenderer:
    """Return a renderer that passes each event's cursor and content to `message`."""

    def encode(events: list[HectorEvent]) -> Messages:
        return [message(event.cursor(log), event.json()) for event in events]

    return HectorRenderer(start, behind(cursor), encode, ending, interrupted=interrupted)
