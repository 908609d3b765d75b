"""Responses of streaming operations as server-sent events, in each JSON binding."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from starlette.responses import Response

from headrace.model import json_text
from headrace.model.cursor import RECOVERED_HEADER, Cursor
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.feeds import EntryRenderer
from headrace_gateway.protocols.a2a.bare_messages import AfterTask
from headrace_gateway.protocols.a2a.versions import OfTask, VersionBinding
from headrace_gateway.streaming.renderer import Renderer, SharedRenderer
from headrace_gateway.streaming.sse import HEADERS, HttpStream, frame
from headrace_gateway.streaming.subscription import Subscriptions
from headrace_gateway.tasks.subscribe import OpenedStream


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """A client's options for its stream, beyond A2A's own."""

    ending: bytes = b""
    """Bytes sent when the stream is over."""
    of_task: bool = False
    """Whether each cursor includes the task's id."""
    reconnects: bool = False
    """Whether the client reconnects until it learns that nothing is left, like EventSource."""


PLAIN = StreamOptions()


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The envelope of each event."""

    around: Callable[[Json], bytes]
    """Wraps an event that does not come from the log."""
    splice: bytes = b""
    """The part of the envelope that the entry renderer leaves out."""
    before_cursor: str = ""


def rest_stream(
    shared: Subscriptions,
    call: Call,
    streaming: OpenedStream,
    binding: VersionBinding,
    options: StreamOptions = PLAIN,
) -> HttpStream:
    """Return the stream of StreamResponses."""
    if not options.of_task:
        return _stream(shared, call, streaming, binding, _Envelope(json_text.encode), options)
    task = f"{streaming.key.task}/"
    binding = replace(binding, entry_renderer=OfTask(binding.entry_renderer))
    envelope = _Envelope(json_text.encode, task.encode(), task)
    return _stream(shared, call, streaming, binding, envelope, options)


def rpc_stream(  # noqa: PLR0917 - as _stream
    shared: Subscriptions,
    call: Call,
    streaming: OpenedStream,
    binding: VersionBinding,
    request_id: object,
    ending: bytes = b"",
) -> HttpStream:
    """Return the stream of JSON-RPC responses whose results are StreamResponses."""

    def around(event: Json) -> bytes:
        return json_text.encode({"jsonrpc": "2.0", "id": request_id, "result": event})

    # Copy, because orjson's own bytes hold 4 KB of memory as long as the stream is open.
    envelope = _Envelope(around, b"%b" % json_text.encode(request_id))
    return _stream(shared, call, streaming, binding, envelope, StreamOptions(ending))


def empty_stream(call: Call) -> Response:
    """Return a stream that ends at once, because no events remain."""
    return Response(b"", 200, HEADERS | call.headers)


def as_event(response: Response) -> Response:
    """Return a JSON response as a stream of one event; 0.3's clients read nothing else there."""
    framed = b"data: %b\n\n" % bytes(response.body)
    return Response(framed, response.status_code, HEADERS)


def entry_renderer_for(usual: EntryRenderer, call: Call, streaming: OpenedStream) -> EntryRenderer:
    """Return the entry renderer for this stream, based on `usual`."""
    if call.card.bare_message and streaming.task_shown:
        return AfterTask(usual, streaming.key.task)
    return usual


def _stream(  # noqa: PLR0917 - what differs between the two bindings above
    shared: Subscriptions,
    call: Call,
    streaming: OpenedStream,
    binding: VersionBinding,
    envelope: _Envelope,
    options: StreamOptions,
) -> HttpStream:
    entry_renderer = entry_renderer_for(binding.entry_renderer, call, streaming)
    first = b""
    if streaming.first is not None:
        cursor = Cursor(streaming.log, streaming.first.generation)
        data = envelope.around(binding.event(streaming.first.event))
        first = frame(f"{envelope.before_cursor}{cursor}", data, binding.event_name)
    headers = call.headers | ({} if streaming.recovered else {RECOVERED_HEADER: "false"})
    renderer: Renderer = SharedRenderer(
        entry_renderer, envelope.splice, opening=first, ending=options.ending
    )
    start = streaming.after
    if binding.renderer is not None:
        renderer, start = binding.renderer(renderer, start), run_begins(call, streaming)
    return HttpStream(shared, streaming.held.hand_over(), start, renderer, headers=headers)


def run_begins(call: Call, streaming: OpenedStream) -> int:
    """Return the generation after which to read a stream whose renderer needs its whole run.

    A message's stream starts with its run; a lost log cannot be read back.
    """
    is_new = call.operation == "SendStreamingMessage" and not call.cursor
    return streaming.after if is_new or not streaming.recovered else 0
