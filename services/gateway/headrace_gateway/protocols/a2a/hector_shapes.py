"""Hector's A2A in each JSON binding: A2A 1.0 underneath, asked and answered in other shapes."""

from dataclasses import dataclass, replace

import orjson
from starlette.requests import HTTPConnection

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.event_frames import JSON_RPC
from headrace_gateway.protocols.a2a.wording import HTTP, RPC, Reworded, Wording
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.protocols.hector.asking import asks_for_done, asks_for_shapes
from headrace_gateway.protocols.hector.messages import completed
from headrace_gateway.protocols.hector.refusals import refused
from headrace_gateway.protocols.hector.told import DONE, DONE_MARK
from headrace_gateway.streaming.sse import frame

SENDS = ("SendMessage", "SendStreamingMessage")
"""Operations whose parameters are a message."""

_MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class MessageEvents:
    """Hector's events over REST, each named ``message``."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames."""
        log, first = entry.stamp.log, entry.generation
        frames = [
            frame(f"{log}:{first + offset}", orjson.dumps(shapes.event(event)), _MESSAGE)
            for offset, event in enumerate(entry.parsed())
            if offset >= skip
        ]
        return (b"".join(frames),)


def _params(operation: str, params: Json) -> Json:
    return completed(params) if operation in SENDS else params


HTTP_HECTOR = replace(
    HTTP,
    params=_params,
    answer=shapes.answered,
    event=shapes.event,
    dialect=MessageEvents(),
    event_name=_MESSAGE,
)
"""Over REST."""

RPC_HECTOR = replace(
    RPC,
    params=_params,
    answer=shapes.answered,
    event=shapes.event,
    dialect=Reworded(shapes.event, JSON_RPC),
)
"""Over JSON-RPC, whose envelope goes around."""


def wording_for(request: HTTPConnection, usual: Wording) -> Wording:
    """Return `usual`, or what the client asks for in its place."""
    if not asks_for_shapes(request):
        return usual
    return RPC_HECTOR if usual.dialect is RPC.dialect else HTTP_HECTOR


def ending_for(request: HTTPConnection) -> bytes:
    """Return what a stream ends with: nothing, unless the client asks for something of Hector's."""
    if asks_for_done(request):
        return DONE_MARK
    return DONE if asks_for_shapes(request) else b""


def hector_error(problem: Problem) -> tuple[int, Json]:
    """Return HTTP status and body of a problem."""
    details: Json = {"reason": problem.reason, **problem.metadata}
    if problem.violations:
        details["fields"] = {one.field: one.rule for one in problem.violations}
    return refused(problem.grpc_status, problem.message, details)
