"""Read a log's live messages as they arrive, without repairing gaps."""

import asyncio

from nats.aio.msg import Msg

_TIMEOUT = 60.0


class LiveCopies:
    """Subscribe `take` to a live subject."""

    def __init__(self) -> None:
        """Hold none yet."""
        self.sequences: list[int] = []
        self._came = asyncio.Event()

    async def take(self, msg: Msg) -> None:
        """Keep the stream sequence of a copy."""
        self.sequences.append(int((msg.headers or {})["Nats-Sequence"]))
        self._came.set()

    async def until(self, sequence: int) -> None:
        """Wait for the copy of the message with `sequence`."""
        async with asyncio.timeout(_TIMEOUT):
            while sequence not in self.sequences:
                self._came.clear()
                await self._came.wait()
