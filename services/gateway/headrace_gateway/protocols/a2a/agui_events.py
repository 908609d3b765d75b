"""A streaming operation's answer in Hector's AG-UI dialect, for clients that ask for it."""

from dataclasses import dataclass, replace

from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.operations import STREAMING
from headrace_gateway.protocols.a2a.stream_responses import PLAIN, Manner
from headrace_gateway.protocols.hector.asking import Place
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.stream import HectorRenderer, behind
from headrace_gateway.protocols.hector.told import DONE, Told, sse
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import RECOVERED, Messages
from headrace_gateway.streaming.sse import EventStream
from headrace_gateway.tasks.subscribe import NothingLeft, TaskStream

_SEND = "SendStreamingMessage"


@dataclass(frozen=True, slots=True)
class AguiOpened:
    """A task that is about to be told in the dialect. Who does not tell it releases its feed."""

    streaming: TaskStream
    start: int
    """Generation behind which the fold begins."""
    place: tuple[int, int] | None
    """Behind which event the client wants to go on; None: it wants all."""


async def agui_opened(services: Services, call: Call, operation: str, params: object) -> AguiOpened:
    """Carry out the operation.

    A message's stream begins with its task or, for a follow-up, with its leg. A subscriber's is
    folded from the task's beginning: without a cursor it is told all of it.

    Raises:
        NothingLeft, A2AError, HeadraceError: as the operation.
    """
    place = Place.parse(call.cursor)
    if place is not None:
        call = replace(call, cursor=place.before)
    streaming = await STREAMING[operation](services, call, params)
    is_follow_up = operation == _SEND and not call.cursor and streaming.after > 1
    return AguiOpened(
        streaming,
        streaming.after if is_follow_up else 0,
        behind(place, call.cursor) if streaming.recovered else None,
    )


async def agui_stream(
    services: Services, call: Call, operation: str, params: Json, manner: Manner = PLAIN
) -> EventStream:
    """Carry out the operation and return its stream of server-sent events.

    Raises:
        NothingLeft, A2AError, HeadraceError: as `agui_opened`.
    """
    opened = await agui_opened(services, call, operation, params)
    streaming = opened.streaming
    if manner.reconnects and await _nothing_left(opened):
        await services.feeds.release(streaming.feed)
        raise NothingLeft
    log = f"{streaming.key.task}/{streaming.log}" if manner.of_task else streaming.log

    def encode(told: list[Told]) -> Messages:
        return (sse(log, told),) if told else ()

    renderer = HectorRenderer(opened.start, opened.place, encode, (manner.ending or DONE,))
    headers = call.headers | ({} if streaming.recovered else {RECOVERED: "false"})
    return EventStream(
        services.subscriptions, streaming.feed, opened.start, renderer, headers=headers
    )


async def _nothing_left(opened: AguiOpened) -> bool:
    """Tell whether the client's place is the last of a log that has ended, by folding it."""
    feed, place = opened.streaming.feed, opened.place
    if place is None or not feed.ended or place[0] < feed.head:
        return False
    fold, reader, last = HectorFold(), feed.reader(opened.start), (0, 0)
    while blocks := await reader.read():
        for block in blocks:
            last = max([last, *(one.place for one in fold.read(block.entry, opened.start))])
    return place >= last
