"""Variants: other events and shapes that clients of A2A's routes may request.

A variant belongs to another protocol; the table of protocols defines which one A2A's routes serve.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from a2a.utils.constants import PROTOCOL_VERSION_1_0
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from headrace.model.cursor import RECOVERED_HEADER
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.feeds import EntryRenderer, Feed, FeedHolder, HeldFeed
from headrace_gateway.problems import Problem
from headrace_gateway.protocols.a2a.operations import STREAMING
from headrace_gateway.protocols.a2a.stream_responses import PLAIN, StreamOptions
from headrace_gateway.protocols.a2a.versions import (
    HTTP,
    JSON_RPC,
    RPC,
    ConvertingRenderer,
    VersionBinding,
    requested_version,
    shape_of_message,
)
from headrace_gateway.server.endpoints import headers_of
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.tasks.subscribe import NothingFollows, OpenedStream

_LONGEST_KEPT = 1024
"""Maximum characters of a header Accept whose choice is kept."""

SENDS = ("SendMessage", "SendStreamingMessage")
"""Operations whose parameters contain a message."""


class VariantShapes(Protocol):
    """Answers in other shapes than A2A's."""

    @property
    def entry_renderer(self) -> EntryRenderer:
        """Renders events as server-sent events."""

    @property
    def event_name(self) -> str:
        """Name of those server-sent events; empty for none."""

    @property
    def empty(self) -> Json:
        """Members that every WebSocket message has by default."""

    def answer(self, operation: str, result: Json) -> Json:
        """Convert an operation's result."""

    def event(self, event: Json) -> Json:
        """Convert a StreamResponse."""

    def renderer(self, inner: Renderer, shown: int) -> Renderer:
        """Wrap `inner` to render after generation `shown`; the log is read from the run's start."""

    def error(self, problem: Problem) -> tuple[int, Json]:
        """Return the HTTP status and the body of a problem."""


class FoldedEvents(Protocol):
    """Events that are folded from a task's log, with their own cursors."""

    def read_from(self, cursor: str) -> str:
        """Return the A2A cursor after which the log must be read for a client at `cursor`."""

    async def nothing_left(self, feed: Feed, start: int, cursor: str) -> bool:
        """Return whether `cursor` is the end of a log that has ended."""

    def frames(self, log: str, start: int, cursor: str, ending: bytes) -> Renderer:
        """Return a renderer of the events after `cursor` as server-sent events.

        The fold starts after generation `start`; cursors start with `log`.
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
        """Return a renderer that passes each event's cursor and content to `message`."""


class VariantChoice(NamedTuple):
    """The forms of a variant that a client requests."""

    shapes: bool
    """Whether it requests answers in the variant's shapes."""
    events: bool
    """Whether it requests streams of the variant's events."""
    ending: bytes
    """The end of a stream of server-sent events; empty unless the client requests one."""


class Variant(Hashable, Protocol):
    """Another protocol's forms on A2A's routes, selected per request."""

    @property
    def shapes(self) -> VariantShapes:
        """Shapes of its answers."""

    @property
    def events(self) -> FoldedEvents:
        """Events of its streams."""

    def choice(self, query: QueryParams, accept: str) -> tuple[bool, bool, bytes]:
        """Return what a request with this query and this header Accept asks for.

        These are the fields of `VariantChoice`.
        """

    def complete(self, params: Json) -> Json:
        """Return SendMessage's parameters with the omissions of the variant's clients filled in."""


def choice_of(variant: Variant, request: HTTPConnection) -> VariantChoice:
    """Return which of the variant's forms the request asks for."""
    headers = headers_of(request.scope)
    accept = headers.first.get("accept", "")
    if not headers.are_single:
        accept = ",".join(headers.getlist("accept"))
    if request.scope.get("query_string") or len(accept) > _LONGEST_KEPT:
        return VariantChoice(*variant.choice(request.query_params, accept))
    return _choice_by_accept(variant, accept)


@lru_cache(maxsize=256)
def _choice_by_accept(variant: Variant, accept: str) -> VariantChoice:
    """Return the choice of a request without a query; most requests accept the same as others."""
    return VariantChoice(*variant.choice(QueryParams(), accept))


def http_binding(variant: Variant) -> VersionBinding:
    """Return the binding of REST requests in the variant's shapes."""
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


def rpc_binding(variant: Variant) -> VersionBinding:
    """Return the binding of JSON-RPC requests in the variant's shapes."""
    shapes = variant.shapes
    return replace(
        RPC,
        params=_completing(variant),
        answer=shapes.answer,
        event=shapes.event,
        entry_renderer=ConvertingRenderer(shapes.event, JSON_RPC),
        renderer=shapes.renderer,
    )


def _completing(variant: Variant) -> Callable[[str, Json], Json]:
    def params(operation: str, params: Json) -> Json:
        return variant.complete(params) if operation in SENDS else params

    return params


def reads_short(choice: VariantChoice, request: HTTPConnection, params: Json) -> bool:
    """Return whether to read a message in the short form of the variant's clients.

    This applies if the client requests the variant, or if it states no version and sends no message
    of 0.3.

    Raises:
        VersionNotSupportedError: the stated version is invalid.
    """
    if choice.events or choice.shapes:
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
    services: Services, variant: Variant, call: Call, operation: str, params: object
) -> FoldStream:
    """Run the operation and return its stream for folding.

    A message's stream starts with its task or, for a follow-up, with its run. A subscriber's stream
    is folded from the task's start; without a cursor, the client gets all of it.

    Raises:
        NothingFollows, A2AError, HeadraceError: as the operation.
    """
    cursor = call.cursor
    if cursor:
        call = replace(call, cursor=variant.events.read_from(cursor))
    streaming = await STREAMING[operation](services, call, params)
    is_follow_up = operation in SENDS and not cursor and streaming.after > 1
    start = streaming.after if is_follow_up else 0
    return FoldStream(streaming, start, cursor if streaming.recovered else "")


async def folded_stream(  # noqa: PLR0917 - as `open_folding`
    services: Services,
    variant: Variant,
    call: Call,
    operation: str,
    params: Json,
    manner: StreamOptions = PLAIN,
) -> HttpStream:
    """Run the operation and return its stream of the variant's server-sent events.

    Raises:
        NothingFollows, A2AError, HeadraceError: as `open_folding`.
    """
    async with await open_folding(services, variant, call, operation, params) as folding:
        streaming, start, cursor = folding.streaming, folding.start, folding.cursor
        if manner.reconnects and await variant.events.nothing_left(folding.feed, start, cursor):
            raise NothingFollows
        log = f"{streaming.key.task}/{streaming.log}" if manner.of_task else streaming.log
        renderer = variant.events.frames(log, start, cursor, manner.ending)
        headers = call.headers | ({} if streaming.recovered else {RECOVERED_HEADER: "false"})
        held = folding.held.hand_over()
    return HttpStream(services.subscriptions, held, start, renderer, headers=headers)
