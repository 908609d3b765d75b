"""The response that streams one run: a fold of the task's log, always with a terminal event."""

from collections.abc import Mapping

from starlette.types import Send

from headrace_gateway.agui.fold import Fold
from headrace_gateway.agui.frame import sse
from headrace_gateway.event_stream import EventStream, EventStreams
from headrace_gateway.intake import Accepted
from headrace_gateway.sse import HEADERS, REST

LOG_LOST = "log_lost"
"""Code of RUN_ERROR when the log is gone, or can't be read now."""
DISCONNECTED = "disconnected"
"""Code of RUN_ERROR when the gateway stops; the run itself goes on."""


class RunStream(EventStream):
    """An ASGI application: one run, one client.

    A client takes a stream that just ends for a success, so one that ends early says so.
    """

    def __init__(
        self, owner: EventStreams, accepted: Accepted, headers: Mapping[str, str] | None = None
    ) -> None:
        """Stream the leg that was accepted; this takes over the caller's use of its feed."""
        before = accepted.generation - 1
        more = HEADERS | dict(headers or {})
        super().__init__(owner, accepted.feed, before, REST, b"", b"", more)
        self._log, self._fold = accepted.log, Fold(accepted.generation)

    async def _pump(self, send: Send) -> bytes:
        last = await super()._pump(send)
        if self._gone or self._fold.over:
            return last
        code = DISCONNECTED if self._feed.loss is None else LOG_LOST
        reason = self._closing or "the log ended before the run did"
        return sse(self._log, self._fold.broken(code, reason)) + last

    async def _forward(self, send: Send) -> bytes | None:
        blocks = await self._reader.read_now()
        if not blocks:
            return await self._wait(send)
        data = sse(self._log, [frame for block in blocks for frame in self._fold.read(block.entry)])
        if self._fold.over:
            return data
        if data:
            await self._write(send, data)
        return None
