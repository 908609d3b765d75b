"""One task's stream in Hector's dialect, among those of a WebSocket."""

from collections.abc import Sequence

import orjson

from headrace_gateway.feeds import Block
from headrace_gateway.protocols.a2a.agui_events import AguiOpened
from headrace_gateway.protocols.a2a.websocket.envelope import Envelope
from headrace_gateway.protocols.a2a.websocket.subscription import SLICE, Write
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.told import Told


class AguiSubscription:
    """Writes the dialect's events, each as one message, until the task ends or asks for input."""

    def __init__(self, opened: AguiOpened, envelope: Envelope, write: Write) -> None:
        """Write what was `opened`."""
        self._log, self._feed = opened.streaming.log, opened.streaming.feed
        self._start, self._place = opened.start, opened.place or (0, 0)
        self._envelope, self._write, self._fold = envelope, write, HectorFold()
        self._reader = self._feed.reader(opened.start)
        self._reader.most = SLICE
        self._closing = False
        self._recovered = opened.streaming.recovered

    def close(self) -> None:
        """End as soon as there is nothing to write."""
        self._closing = True
        self._reader.wake()

    async def run(self) -> bool:
        """Write until the stream is over; False: it was closed before.

        Raises:
            LogLost, BusUnavailable: as `Reader.read`.
        """
        while not self._reader.at_end:
            blocks = await self._reader.read_now()
            if blocks:
                await self._forward(blocks)
                newest = blocks[-1].entry
                if newest.ends_leg and newest.last_generation == self._feed.head:
                    return True
            elif self._closing:
                return False
            else:
                await self._reader.wait()
        return True

    async def _forward(self, blocks: Sequence[Block]) -> None:
        told = [one for block in blocks for one in self._fold.read(block.entry, self._start)]
        messages = [self._message(one) for one in told if one.place > self._place]
        if messages:
            await self._write(messages)

    def _message(self, told: Told) -> bytes:
        lost, self._recovered = not self._recovered, True
        return self._envelope.told(
            f"{self._log}:{told.generation}.{told.number}", orjson.dumps(told.json()), lost=lost
        )
