"""Hector's forms of A2A's requests, answers and streams, which clients of its routes request."""

from dataclasses import dataclass, replace

from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.requests import HTTPConnection

from headrace.model.cursor import RECOVERED_HEADER
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.feeds import FeedHolder, HeldFeed
from headrace_gateway.protocols.a2a.operations import STREAMING
from headrace_gateway.protocols.a2a.stream_responses import PLAIN, StreamOptions
from headrace_gateway.protocols.a2a.versions import (
    HTTP,
    JSON_RPC,
    RPC,
    ConvertingRenderer,
    HectorForms,
    requested_version,
    shape_of_message,
)
from headrace_gateway.protocols.hector import forms, shapes
from headrace_gateway.protocols.hector.forms import SENDS
from headrace_gateway.protocols.hector.renderer import frames, nothing_left, read_from
from headrace_gateway.protocols.hector.tool_calls import WholeCalls
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.tasks.subscribe import NothingFollows, OpenedStream


def _completed(operation: str, params: Json) -> Json:
    return forms.completed(params) if operation in SENDS else params


HTTP_FORM = replace(
    HTTP,
    params=_completed,
    answer=shapes.answered,
    event=shapes.event,
    entry_renderer=forms.ENTRY_RENDERER,
    event_name=forms.MessageEvents.name,
    renderer=WholeCalls,
)
"""REST requests in Hector's shapes."""

RPC_FORM = replace(
    RPC,
    params=_completed,
    answer=shapes.answered,
    event=shapes.event,
    entry_renderer=ConvertingRenderer(shapes.event, JSON_RPC),
    renderer=WholeCalls,
)
"""JSON-RPC requests in Hector's shapes."""


def reads_short(requested: HectorForms, request: HTTPConnection, params: Json) -> bool:
    """Return whether to read a message in the short form of Hector's clients.

    This applies if the client requests one of Hector's forms, or if it states no version and sends
    no message of 0.3.

    Raises:
        VersionNotSupportedError: the stated version is invalid.
    """
    if requested.events or requested.shapes:
        return True
    is_new = shape_of_message(params) == PROTOCOL_VERSION_1_0
    return is_new and requested_version(request) is None


@dataclass(frozen=True, slots=True)
class FoldStream(FeedHolder):
    """A task's stream before its events are folded."""

    streaming: OpenedStream
    start: int
    """Generation after which the fold starts."""
    cursor: str
    """Cursor after which the client resumes; empty for all events."""

    @property
    def held(self) -> HeldFeed:
        """The stream's feed."""
        return self.streaming.held


async def open_folding(
    services: Services, call: Call, operation: str, params: object
) -> FoldStream:
    """Run the operation and return its stream for folding.

    A message's stream starts with its task or, for a follow-up, with its run. A subscriber's stream
    is folded from the task's start; without a cursor, the client gets all of it.

    Raises:
        NothingFollows, A2AError, HeadraceError: as the operation.
    """
    cursor = call.cursor
    if cursor:
        call = replace(call, cursor=read_from(cursor))
    streaming = await STREAMING[call.operation](services, call, params)
    is_follow_up = operation in SENDS and not cursor and streaming.after > 1
    start = streaming.after if is_follow_up else 0
    return FoldStream(streaming, start, cursor if streaming.recovered else "")


async def folded_stream(
    services: Services,
    call: Call,
    operation: str,
    params: Json,
    options: StreamOptions = PLAIN,
) -> HttpStream:
    """Run the operation and return its stream of Hector's server-sent events.

    Raises:
        NothingFollows, A2AError, HeadraceError: as `open_folding`.
    """
    async with await open_folding(services, call, operation, params) as folding:
        streaming, start, cursor = folding.streaming, folding.start, folding.cursor
        if options.reconnects and await nothing_left(folding.feed, start, cursor):
            raise NothingFollows
        log = f"{streaming.key.task}/{streaming.log}" if options.of_task else streaming.log
        renderer = frames(log, start, cursor, options.ending)
        headers = call.headers | ({} if streaming.recovered else {RECOVERED_HEADER: "false"})
        held = folding.held.hand_over()
    return HttpStream(services.subscriptions, held, start, renderer, headers=headers)
