"""What a client of A2A's routes may be answered with instead of A2A's own events and shapes.

A variant is another protocol's: the table of protocols says which one A2A's routes serve.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.requests import HTTPConnection

from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.feeds import EntryRenderer, Feed
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.event_frames import JSON_RPC
from headrace_gateway.protocols.a2a.operations import STREAMING
from headrace_gateway.protocols.a2a.stream_responses import PLAIN, Manner
from headrace_gateway.protocols.a2a.versions import (
    HTTP,
    RPC,
    Reworded,
    Wording,
    requested_version,
    shape_of_message,
)
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import RECOVERED, Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import EventStream
from headrace_gateway.tasks.subscribe import NothingFollows, TaskStream

SENDS = ("SendMessage", "SendStreamingMessage")
"""Operations whose parameters are a message."""


class VariantShapes(Protocol):
    """Answers in other shapes than A2A's."""

    @property
    def entry_renderer(self) -> EntryRenderer:
        """What renders events as server-sent events."""

    @property
    def event_name(self) -> str:
        """What those are called; empty: they have no name."""

    @property
    def empty(self) -> Json:
        """What every message of a WebSocket has, if it says nothing else."""

    def answer(self, operation: str, result: Json) -> Json:
        """Return an operation's result."""

    def event(self, event: Json) -> Json:
        """Return a StreamResponse."""

    def renderer(self, inner: Renderer, shown: int) -> Renderer:
        """Return what has `inner` show a stream behind generation `shown`, read from its run on."""

    def error(self, problem: Problem) -> tuple[int, Json]:
        """Return the HTTP status and the body of a problem."""


class FoldedEvents(Protocol):
    """Events that are folded from a task's log, with cursors of their own."""

    def read_from(self, cursor: str) -> str:
        """Return the cursor of A2A behind which the log is to be read for a client at `cursor`."""

    async def nothing_left(self, feed: Feed, start: int, cursor: str) -> bool:
        """Tell whether `cursor` is the last of a log that has ended."""

    def frames(self, log: str, start: int, cursor: str, ending: bytes) -> Renderer:
        """Return what renders the events behind `cursor` as server-sent events.

        The fold begins behind generation `start`; `log` stands in front of cursors.
        """

    def messages(
        self,
        log: str,
        start: int,
        cursor: str,
        *,
        message: Callable[[str, Json], bytes],
        ending: Messages,
        interrupted: Callable[[Interruption], Messages],
    ) -> Renderer:
        """Return what renders each event as the `message` of its cursor and itself."""


class Variant(Protocol):
    """Another protocol's forms on A2A's routes, asked for request by request."""

    @property
    def shapes(self) -> VariantShapes:
        """Its answers."""

    @property
    def events(self) -> FoldedEvents:
        """Its events."""

    def wants_shapes(self, request: HTTPConnection) -> bool:
        """Tell whether the client wants answers in the variant's shapes."""

    def wants_events(self, request: HTTPConnection) -> bool:
        """Tell whether the client wants streams of the variant's events."""

    def ending(self, request: HTTPConnection) -> bytes:
        """Return what a stream of server-sent events ends with, if the client wants anything."""

    def complete(self, params: Json) -> Json:
        """Return SendMessage's parameters with what the variant's clients leave out."""


def http_wording(variant: Variant) -> Wording:
    """Return how REST requests are read and answered in the variant's shapes."""
    shapes = variant.shapes
    return replace(
        HTTP,
        params=_completing(variant),
        answer=shapes.answer,
        event=shapes.event,
        entry_renderer=shapes.entry_renderer,
        event_name=shapes.event_name,
        renderer=shapes.renderer,
    )


def rpc_wording(variant: Variant) -> Wording:
    """Return the same for JSON-RPC, whose envelope goes around."""
    shapes = variant.shapes
    return replace(
        RPC,
        params=_completing(variant),
        answer=shapes.answer,
        event=shapes.event,
        entry_renderer=Reworded(shapes.event, JSON_RPC),
        renderer=shapes.renderer,
    )


def _completing(variant: Variant) -> Callable[[str, Json], Json]:
    def params(operation: str, params: Json) -> Json:
        return variant.complete(params) if operation in SENDS else params

    return params


def reads_short(variant: Variant, request: HTTPConnection, params: Json) -> bool:
    """Tell whether a message is read as the variant's clients send it, shorter than A2A's.

    It is where the client asks for the variant, or says nothing and sends no message of 0.3.

    Raises:
        VersionNotSupportedError: it states what is no version.
    """
    if variant.wants_events(request) or variant.wants_shapes(request):
        return True
    is_new = shape_of_message(params) == PROTOCOL_VERSION_1_0
    return is_new and requested_version(request) is None


@dataclass(frozen=True, slots=True)
class Folding:
    """A task whose events are about to be folded. Who does not render it releases its feed."""

    streaming: TaskStream
    start: int
    """Generation behind which the fold begins."""
    cursor: str
    """Behind which event the client wants to go on; empty: it wants all."""


async def open_folding(
    services: Services, variant: Variant, call: Call, operation: str, params: object
) -> Folding:
    """Carry out the operation.

    A message's stream begins with its task or, for a follow-up, with its run. A subscriber's is
    folded from the task's beginning: without a cursor it gets all of it.

    Raises:
        NothingFollows, A2AError, HeadraceError: as the operation.
    """
    cursor = call.cursor
    if cursor:
        call = replace(call, cursor=variant.events.read_from(cursor))
    streaming = await STREAMING[operation](services, call, params)
    is_follow_up = operation in SENDS and not cursor and streaming.after > 1
    start = streaming.after if is_follow_up else 0
    return Folding(streaming, start, cursor if streaming.recovered else "")


async def folded_stream(  # noqa: PLR0917 - as `open_folding`
    services: Services,
    variant: Variant,
    call: Call,
    operation: str,
    params: Json,
    manner: Manner = PLAIN,
) -> EventStream:
    """Carry out the operation and return its stream of the variant's server-sent events.

    Raises:
        NothingFollows, A2AError, HeadraceError: as `open_folding`.
    """
    folding = await open_folding(services, variant, call, operation, params)
    streaming, start, cursor = folding.streaming, folding.start, folding.cursor
    async with services.feeds.handed_on(streaming.feed):
        if manner.reconnects and await variant.events.nothing_left(streaming.feed, start, cursor):
            raise NothingFollows
    log = f"{streaming.key.task}/{streaming.log}" if manner.of_task else streaming.log
    renderer = variant.events.frames(log, start, cursor, manner.ending)
    headers = call.headers | ({} if streaming.recovered else {RECOVERED: "false"})
    return EventStream(services.subscriptions, streaming.feed, start, renderer, headers=headers)
