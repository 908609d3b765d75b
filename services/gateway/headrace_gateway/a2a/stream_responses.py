"""A streaming operation's answer as server-sent events, in each JSON binding."""

from collections.abc import Callable

import orjson
from starlette.responses import Response

from headrace.events import Json
from headrace_gateway.a2a.bare_messages import AfterTask
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.cursor import Cursor
from headrace_gateway.a2a.streaming import Streaming
from headrace_gateway.a2a.wording import Wording
from headrace_gateway.event_stream import EventStream, EventStreams
from headrace_gateway.feeds import Dialect
from headrace_gateway.sse import HEADERS, frame

RECOVERED = "Headrace-Recovered"
"""Response header; ``false``: what came after the client's cursor is lost, a snapshot leads."""


def rest_stream(
    streams: EventStreams, call: Call, streaming: Streaming, wording: Wording
) -> EventStream:
    """Return the stream of StreamResponses."""
    return _stream(streams, call, streaming, wording, b"", orjson.dumps)


def rpc_stream(
    streams: EventStreams, call: Call, streaming: Streaming, wording: Wording, request_id: object
) -> EventStream:
    """Return the stream of JSON-RPC responses whose results are StreamResponses."""
    # A copy: orjson's own takes 4 KB of memory, for as long as the stream is open.
    splice = b"%b" % orjson.dumps(request_id)

    def envelope(event: Json) -> bytes:
        return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "result": event})

    return _stream(streams, call, streaming, wording, splice, envelope)


def empty_stream(call: Call) -> Response:
    """Return a stream that ends at once: nothing is left to tell, now or ever."""
    return Response(b"", 200, HEADERS | call.headers)


def as_event(response: Response) -> Response:
    """Return a JSON response as a stream of one event: 0.3's clients read nothing else there."""
    framed = b"data: %b\n\n" % bytes(response.body)
    return Response(framed, response.status_code, HEADERS)


def told_as(dialect: Dialect, call: Call, streaming: Streaming) -> Dialect:
    """Return `dialect` as it is to be used for this stream."""
    if call.card.bare_message and streaming.task_shown:
        return AfterTask(dialect, streaming.key.task)
    return dialect


def _stream(  # noqa: PLR0917 - what differs between the two bindings above
    streams: EventStreams,
    call: Call,
    streaming: Streaming,
    wording: Wording,
    splice: bytes,
    envelope: Callable[[Json], bytes],
) -> EventStream:
    dialect = told_as(wording.dialect, call, streaming)
    first = b""
    if streaming.first is not None:
        cursor = Cursor(streaming.log, streaming.first.generation)
        first = frame(str(cursor), envelope(wording.event(streaming.first.event)))
    headers = call.headers | ({} if streaming.recovered else {RECOVERED: "false"})
    return streams.of(
        streaming.feed, streaming.after, dialect, splice=splice, first=first, headers=headers
    )
