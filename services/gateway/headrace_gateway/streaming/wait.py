"""Waiting on a feed for one answer: until it comes, the client goes, or the gateway stops."""

import asyncio
from types import TracebackType
from typing import Self

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from headrace.model.entry import Entry
from headrace_gateway.feeds import Feed
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.tasks.full_streams import FullStreams
from headrace_gateway.tasks.unanswered import Stopping

SILENCE = 5.0
"""Seconds without an event after which a full stream counts as the cause."""


class Waiting:
    """One request that is answered by what a feed will bring.

    It counts among the open streams, so that it is told when the gateway stops.
    """

    def __init__(  # noqa: PLR0917 - what is waited for, and what ends the waiting
        self,
        streams: OpenStreams,
        feed: Feed,
        after: int,
        context: str,
        receive: Receive,
        full: FullStreams | None = None,
    ) -> None:
        """Wait for what `feed` brings behind generation `after`; `receive` tells of the client.

        `context` is the task's, to be named to a client that waited in vain. With `full`, nobody
        waits in silence for a stream that takes nothing more.
        """
        self._streams, self._receive = streams, receive
        self._full, self._key = full, feed.key
        self._heard = asyncio.get_running_loop().time()
        self._reader = feed.reader(after)
        self._task, self._context = feed.key.task, context
        self._reason = ""
        self._gone = False
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = asyncio.create_task(self._watch_client())
        self._streams.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._streams.remove(self)
        if self._watch is not None:
            self._watch.cancel()

    def tick(self, now: float) -> None:
        """See whether there is still something to wait for; nothing is sent before the answer."""
        is_silent = now - self._heard > SILENCE
        if self._full is not None and is_silent and self._full.has(self._key, now):
            self.close("the log takes nothing more now")

    def close(self, reason: str) -> None:
        """Wait no longer."""
        self._reason = reason
        self._reader.wake()

    async def read(self) -> list[Entry]:
        """Return the next entries, waiting for them; an empty list: the log has ended.

        Raises:
            ClientDisconnect: the client went away.
            Stopping: the gateway stops, or the log is full.
            LogLost, BusUnavailable: as `Reader.read`.
        """
        while True:
            self._check()
            blocks = await self._reader.read_now()
            if blocks or self._reader.at_end:
                self._heard = asyncio.get_running_loop().time()
                return [block.entry for block in blocks]
            await self._reader.wait()

    def _check(self) -> None:
        if self._gone:
            raise ClientDisconnect
        if self._reason:
            raise Stopping(self._reason, self._task, self._context)

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._reader.wake()
