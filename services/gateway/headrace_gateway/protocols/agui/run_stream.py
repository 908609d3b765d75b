"""Rendering of one run: a fold of the task's log that always has a terminal event.

Clients take a stream without one for a success, so an early end is sent as RUN_ERROR.
"""

from collections.abc import Callable, Sequence

from headrace.model.cursor import RECOVERED_HEADER
from headrace.model.task import TASK_HEADER
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.agui.encodings import SSE, Encoding
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.run_frames import OpenedRun, RunFrames
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.streaming.subscription import Subscriptions

LOG_LOST = "log_lost"
"""Code of RUN_ERROR when the log is gone."""
DISCONNECTED = "disconnected"
"""Code of RUN_ERROR when the stream ends early for another reason; the run itself continues."""

_ENDED_EARLY = "the log ended before the run"


class RunRenderer(Renderer):
    """Renders one run for one client."""

    __slots__ = ("_encode", "_frames")

    def __init__(self, frames: RunFrames, encode: Callable[[list[AguiFrame]], Messages]) -> None:
        """Render `frames` with `encode`."""
        self._frames, self._encode = frames, encode

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Render the next frames."""
        return self._encode([one for block in blocks for one in self._frames.read(block.entry)])

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the run decides, not the task
        """Return whether the run has ended."""
        return self._frames.over

    def ending(self) -> Messages:
        """Return RUN_ERROR if the log has ended before the run, otherwise nothing."""
        return () if self._frames.over else self._broken(DISCONNECTED, _ENDED_EARLY)

    def interrupted(self, why: Interruption) -> Messages:
        """Return RUN_ERROR."""
        if self._frames.over:
            return ()
        return self._broken(LOG_LOST if why.cause is Cause.LOST else DISCONNECTED, why.reason)

    def _broken(self, code: str, reason: str) -> Messages:
        return self._encode(self._frames.broken(code, reason))


def run_stream(shared: Subscriptions, opened: OpenedRun, encoding: Encoding = SSE) -> HttpStream:
    """Return the stream of an opened run, which hands its feed over."""
    log = opened.log

    def encode(frames: list[AguiFrame]) -> Messages:
        return (encoding.encode(log, frames),) if frames else ()

    renderer = RunRenderer(opened.frames, encode)
    headers = {TASK_HEADER: opened.held.feed.key.task}
    if not opened.recovered:
        headers[RECOVERED_HEADER] = "false"
    return HttpStream(
        shared, opened.held.hand_over(), 0, renderer, headers=headers, body=encoding.body
    )
