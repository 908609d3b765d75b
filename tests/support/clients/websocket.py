"""A WebSocket client that sorts received messages by request id."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from websockets.asyncio import client
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.support.waiting import TIMEOUT

type Json = dict[str, Any]

connect = partial(client.connect, open_timeout=TIMEOUT)
"""The library's `connect`, which waits for the handshake as long as for anything else in tests."""


class Socket:
    """One WebSocket to a gateway."""

    def __init__(self, connection: ClientConnection) -> None:
        """Speak over `connection`."""
        self.connection = connection
        self._came: dict[str, asyncio.Queue[Json]] = defaultdict(asyncio.Queue)
        self._reading = asyncio.create_task(self._read())

    async def send(self, frame: object) -> None:
        """Send a frame; what is no string goes as JSON."""
        await self.connection.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def next(self, frame_id: object) -> Json:
        """Return the next message for `frame_id`."""
        return await asyncio.wait_for(self._came[json.dumps(frame_id)].get(), 60)

    async def rest(self, frame_id: object) -> list[Json]:
        """Return every message for `frame_id` up to the one that ends it."""
        messages = list[Json]()
        while not messages or not ({"end", "error"} & messages[-1].keys()):
            messages.append(await self.next(frame_id))
        return messages

    async def events(self, frame_id: object) -> list[tuple[str, Json]]:
        """Return cursor and event of every message of a stream, which ends in good order."""
        *events, end = await self.rest(frame_id)
        assert end == {"id": frame_id, "end": True}
        return [(event["cursor"], event["event"]) for event in events]

    async def closed(self) -> tuple[int, str]:
        """Return close code and reason once the gateway has closed."""
        await asyncio.wait_for(self._reading, 60)
        return self.connection.close_code or 0, self.connection.close_reason or ""

    async def stop(self) -> None:
        """Go away."""
        await self.connection.close()
        await self._reading

    async def _read(self) -> None:
        try:
            async for text in self.connection:
                message = json.loads(text)
                self._came[json.dumps(message["id"])].put_nowait(message)
        except ConnectionClosed:
            pass


@asynccontextmanager
async def socket_to(url: str, path: str = "/stream", **options: Any) -> AsyncIterator[Socket]:  # noqa: ANN401 - handed on
    """Open a WebSocket for the length of a block."""
    target = url.replace("http://", "ws://") + path
    async with connect(target, max_size=None, **options) as connection:
        socket = Socket(connection)
        try:
            yield socket
        finally:
            await socket.stop()
