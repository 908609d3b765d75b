"""A streaming operation's answer in Hector's AG-UI dialect, for clients that ask for it."""

from dataclasses import replace

from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.operations import STREAMING
from headrace_gateway.a2a.stream_responses import RECOVERED
from headrace_gateway.hector.asking import Place
from headrace_gateway.hector.stream import HectorStream, behind
from headrace_gateway.services import Services

_SEND = "SendStreamingMessage"


async def agui_stream(
    services: Services, call: Call, operation: str, params: object
) -> HectorStream:
    """Carry out the operation and return its stream.

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
    return HectorStream(
        services.event_streams,
        streaming.feed,
        streaming.log,
        streaming.after if is_follow_up else 0,
        behind(place, call.cursor) if streaming.recovered else None,
        call.headers | ({} if streaming.recovered else {RECOVERED: "false"}),
    )
