"""Streaming of a task to one gRPC client."""

from collections.abc import Sequence

from headrace_gateway.call import Call
from headrace_gateway.feeds import EntryRenderer, FeedBlock
from headrace_gateway.problems import Problem, problem_of_interruption
from headrace_gateway.protocols.a2a.grpc.asking import outgoing
from headrace_gateway.protocols.a2a.grpc.forms import Form
from headrace_gateway.protocols.a2a.stream_responses import entry_renderer_for
from headrace_gateway.services import Services
from headrace_gateway.streaming.grpc import Context, RpcStream
from headrace_gateway.streaming.renderer import RECOVERED, Messages, Renderer
from headrace_gateway.tasks.subscribe import TaskStream


class CutOff(Exception):
    """The stream ends before its task does; the client may resume with its cursor."""

    def __init__(self, problem: Problem) -> None:
        """Keep the problem that the client receives."""
        super().__init__(problem.message)
        self.problem = problem


class RpcRenderer(Renderer):
    """Renders each event as one message. The RPC's status reports an early end."""

    __slots__ = ("_entry_renderer", "_opening")

    def __init__(self, entry_renderer: EntryRenderer, opening: Messages = ()) -> None:
        """Render events with `entry_renderer`, after `opening`."""
        self._entry_renderer, self._opening = entry_renderer, opening

    def opening(self) -> Messages:
        """Return the opening."""
        opening, self._opening = self._opening, ()
        return opening

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return one message for each event."""
        return [piece for block in blocks for piece in block.pieces(self._entry_renderer, after)]


async def serve_stream(
    services: Services, form: Form, call: Call, streaming: TaskStream, context: Context
) -> None:
    """Stream to `context` until nothing more follows; takes over the use of the feed.

    Raises:
        CutOff: the gateway stops, the log cannot be read, the client does not read, or protobuf
            cannot represent an event.
    """
    feed, first = streaming.feed, streaming.first
    async with services.feeds.handed_on(feed):
        opening = (
            () if first is None else (form.event(first.event, streaming.log, first.generation),)
        )
    lost = {} if streaming.recovered else {RECOVERED: "false"}
    stream = RpcStream(context, outgoing(call.headers | lost))
    renderer = RpcRenderer(entry_renderer_for(form.entry_renderer, call, streaming), opening)
    why = await stream.serve(services.subscriptions, feed, streaming.after, renderer)
    if why is not None:
        raise CutOff(problem_of_interruption(why, feed.key.task))
