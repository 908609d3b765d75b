"""One task's stream among those of a WebSocket."""

from collections.abc import Awaitable, Callable, Sequence

from headrace_gateway.call import Call
from headrace_gateway.feeds import Block
from headrace_gateway.protocols.a2a.cursor import Cursor
from headrace_gateway.protocols.a2a.stream_responses import told_as
from headrace_gateway.protocols.a2a.streaming import Streaming
from headrace_gateway.protocols.a2a.websocket.envelope import Envelope

SLICE = 64 * 1024
"""About how many bytes a subscription writes before others have their turn."""

type Write = Callable[[Sequence[bytes]], Awaitable[None]]
"""Sends messages in a row; who waits for it is served in the order of waiting."""


class Subscription:
    """Writes a feed's events, each as one message, until the task ends or asks for input."""

    def __init__(self, call: Call, streaming: Streaming, envelope: Envelope, write: Write) -> None:
        """Write what `streaming` brings."""
        self._streaming, self._envelope, self._write = streaming, envelope, write
        self._dialect = told_as(envelope.dialect, call, streaming)
        self._reader = streaming.feed.reader(streaming.after)
        self._reader.most = SLICE
        self._closing = False

    def close(self) -> None:
        """End as soon as there is nothing to write."""
        self._closing = True
        self._reader.wake()

    async def run(self) -> bool:
        """Write until the stream is over; False: it was closed before.

        Raises:
            LogLost, BusUnavailable: as `Reader.read`.
        """
        first = self._streaming.first
        if first is not None:
            cursor = Cursor(self._streaming.log, first.generation)
            recovered = self._streaming.recovered
            await self._write([self._envelope.event(cursor, first.event, recovered=recovered)])
        while not self._reader.at_end:
            after = self._reader.after
            blocks = await self._reader.read_now()
            if blocks:
                await self._forward(blocks, after)
                if self._rests(blocks[-1]):
                    return True
            elif self._closing:
                return False
            else:
                await self._reader.wait()
        return True

    def _rests(self, newest: Block) -> bool:
        entry = newest.entry
        return entry.ends_leg and entry.last_generation == self._streaming.feed.head

    async def _forward(self, blocks: Sequence[Block], after: int) -> None:
        head, messages, size = self._envelope.head, list[bytes](), 0
        for block in blocks:
            messages += [head + piece for piece in block.pieces(self._dialect, after)]
            size += block.size
            if size > SLICE:
                await self._write(messages)
                messages, size = [], 0
        if messages:
            await self._write(messages)
