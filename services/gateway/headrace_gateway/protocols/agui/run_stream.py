"""The response that streams one run: a fold of the task's log, always with a terminal event."""

import asyncio

from starlette.types import Send

from headrace_gateway.event_stream import EventStream, EventStreams
from headrace_gateway.protocols.a2a.stream_responses import RECOVERED
from headrace_gateway.protocols.agui.encodings import SSE, Encoding
from headrace_gateway.protocols.agui.opened import Opened
from headrace_gateway.sse import REST

LOG_LOST = "log_lost"
"""Code of RUN_ERROR when the log is gone, or can't be read now."""
DISCONNECTED = "disconnected"
"""Code of RUN_ERROR when the gateway stops; the run itself goes on."""


class RunStream(EventStream):
    """An ASGI application: one run, one client.

    A client takes a stream that just ends for a success, so one that ends early says so.
    """

    def __init__(self, owner: EventStreams, opened: Opened, encoding: Encoding = SSE) -> None:
        """Stream what was opened; this takes over the caller's use of its feed."""
        lost = {} if opened.recovered else {RECOVERED: "false"}
        before = opened.frames.leg - 1
        super().__init__(owner, opened.feed, before, REST, b"", b"", encoding.headers | lost)
        self._log, self._frames, self._encoding = opened.log, opened.frames, encoding

    async def _pump(self, send: Send) -> bytes:
        last = await super()._pump(send)
        if self._gone or self._frames.over:
            return last
        code = DISCONNECTED if self._feed.loss is None else LOG_LOST
        reason = self._closing or "the log ended before the run did"
        end = self._encoding.encode(self._log, self._frames.broken(code, reason))
        return end + last if self._encoding.keepalive else end

    async def _forward(self, send: Send) -> bytes | None:
        await self._make_room(send)
        blocks = await self._reader.read_now()
        if not blocks:
            return await self._wait(send)
        told = [frame for block in blocks for frame in self._frames.read(block.entry)]
        data = self._encoding.encode(self._log, told)
        if self._frames.over:
            return data
        if data:
            await self._write(send, data)
        return None

    async def _wait(self, send: Send) -> bytes | None:
        if self._encoding.keepalive:
            return await super()._wait(send)
        if self._reader.at_end:
            return b""
        await self._reader.wait()
        # There is nothing to send; the next look is due after another silence.
        self._quiet_since = asyncio.get_running_loop().time()
        return None
