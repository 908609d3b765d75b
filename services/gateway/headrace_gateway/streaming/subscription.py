"""The loop that follows a feed for one client. Every stream of every protocol is one of these.

It reads the backlog and then what comes, has it rendered, and writes it. It keeps a silent stream
alive, notices a client that takes nothing, and ends with the task, with the gateway, or with the
log. What a client is told is the renderer's; how it is written is the transport's.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from headrace_gateway.feeds import MOST, Feed, Feeds
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.server.slow_client import SlowClient
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer

_log = logging.getLogger(__name__)

_LITTLE = 32 * 1024
"""About how many bytes of events a client gets at a time that has not taken the last ones."""

_UNSEEN = 64 * 1024
"""The same for clients of which it can't be seen what they have taken."""

LAST_WORDS = {Cause.STALLED: 5.0, Cause.STOPPING: 1.0}
"""Seconds that a client has to take why its stream ends; else as long as it takes anything."""

TAKES_NOTHING = "the client takes nothing"


class Transport(Protocol):
    """Writes to one client what the loop gives it."""

    slow: SlowClient
    keepalive: Messages
    """What is written after a silence; empty: there is no need to, or no way."""

    async def begin(self) -> None:
        """Write what comes before everything else."""

    async def write(self, messages: Messages) -> None:
        """Write; return when more may be written. Cancelled, it has written whole messages."""

    async def end(self, messages: Messages, why: Interruption | None) -> None:
        """Write the last messages, and what ends a stream or interrupts it."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What all subscriptions of a gateway share."""

    feeds: Feeds
    open: OpenStreams
    requests: OpenRequests
    settings: GatewaySettings


class Subscription:
    """One feed, one client, until the task rests or the client goes.

    A client that goes ends its stream only, never the task. There may be thousands, idle.
    """

    __slots__ = (
        "_cut",
        "_feed",
        "_gone",
        "_most",
        "_quiet_since",
        "_reader",
        "_renderer",
        "_shared",
        "_task",
        "_transport",
        "_why",
        "_writing",
    )

    def __init__(
        self,
        shared: Subscriptions,
        feed: Feed,
        after: int,
        renderer: Renderer,
        transport: Transport,
    ) -> None:
        """Follow `feed` from behind generation `after` on; takes over the caller's use of it."""
        self._shared, self._feed, self._reader = shared, feed, feed.reader(after)
        self._renderer, self._transport = renderer, transport
        self._why: Interruption | None = None
        self._task: asyncio.Task[object] | None = None
        self._gone = self._writing = self._cut = False
        self._quiet_since = 0.0
        self._most = _LITTLE

    async def run(self) -> Interruption | None:
        """Serve the client; return why that ended early, if it did.

        It is closed with the gateway, and told the time by it.
        """
        self._shared.open.add(self)
        try:
            return await self.serve()
        finally:
            self._shared.open.remove(self)

    async def serve(self) -> Interruption | None:
        """Do as `run`, closed and told the time by the caller."""
        self._task = asyncio.current_task()
        self._quiet_since = asyncio.get_running_loop().time()
        async with self._shared.feeds.held(self._feed):
            try:
                await self._follow()
            except asyncio.CancelledError:
                if not self._cut or self._task is None or self._task.uncancel():
                    raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
                self._why = self._why or Interruption.by(error)
            if self._gone:
                await self._transport.end((), None)
            elif self._why is not None:
                await self._say(self._why)
        return self._why

    def tick(self, now: float) -> None:
        """Keep a silent stream alive; interrupt one whose client takes nothing."""
        settings, slow = self._shared.settings, self._transport.slow
        if slow.seconds(now, writing=self._writing) > settings.stall_timeout:
            self.interrupt(Interruption(Cause.STALLED, TAKES_NOTHING))
        elif not self._writing and now - self._quiet_since > settings.keepalive:
            self._reader.wake()

    def close(self, reason: str) -> None:
        """End soon and say why, because the gateway stops."""
        self.interrupt(Interruption(Cause.STOPPING, reason))

    def interrupt(self, why: Interruption) -> None:
        """End soon and say why; what is being written does not have to be taken first."""
        if self._why is not None:
            return
        self._why = why
        if self._writing and self._task is not None:
            self._cut = True
            self._task.cancel()
        else:
            self._reader.wake()

    @property
    def after(self) -> int:
        """The generation of the last event that has been read."""
        return self._reader.after

    @property
    def is_left(self) -> bool:
        """Whether the client has gone."""
        return self._gone

    def leave(self) -> None:
        """End soon: the client has gone."""
        self._gone = True
        self._reader.wake()

    async def _follow(self) -> None:
        """Write until the stream is over, its end included, or until it is to end early."""
        reader, renderer = self._reader, self._renderer
        self._writing = True
        await self._transport.begin()
        self._writing = False
        if opening := renderer.opening():
            await self._write(opening)
        while self._why is None and not self._gone:
            await self._make_room()
            after = reader.after
            blocks = await reader.read_now()
            if not blocks:
                if reader.at_end:
                    await self._end(renderer.ending())
                    return
                await self._wait()
                continue
            messages = renderer.render(blocks, after)
            newest = blocks[-1].entry
            rests = newest.ends_run and newest.last_generation == self._feed.head
            if renderer.is_over(rests=rests):
                # With the end: one write, and one wake of the client, fewer.
                await self._end([*messages, *renderer.ending()])
                return
            del blocks, newest  # Not to be held for as long as a slow client takes over it.
            if messages:
                await self._write(messages)
                del messages

    async def _make_room(self) -> None:
        """Wait until the client has taken most of what it has; read more at a time if it has."""
        slow = self._transport.slow
        if slow.buffered:
            # What is fetched before there is room for it would only be held meanwhile.
            self._writing = True
            await slow.room()
            self._writing = False
            self._most = _LITTLE
        self._reader.most = self._most
        self._most = min(2 * self._most, MOST if slow.is_visible else _UNSEEN)

    async def _wait(self) -> None:
        if self._why is not None or self._gone:
            return
        await self._reader.wait()
        now = asyncio.get_running_loop().time()
        if now - self._quiet_since > self._shared.settings.keepalive and self._why is None:
            await self._write(self._transport.keepalive)

    async def _write(self, messages: Messages) -> None:
        """Write, unless the stream is to end; the time counts as one when something was said."""
        if self._why is None and messages:
            self._writing = True
            await self._transport.write(messages)
            self._writing = False
        self._quiet_since = asyncio.get_running_loop().time()

    async def _end(self, messages: Messages) -> None:
        if self._why is None:
            self._writing = True
            await self._transport.end(messages, None)
            self._writing = False

    async def _say(self, why: Interruption) -> None:
        """Tell the client why its stream ends early, as far as it takes that."""
        _log.info("stream of %s ends: %s", self._feed.key.task, why.reason)
        limit = LAST_WORDS.get(why.cause, self._shared.settings.stall_timeout)
        self._writing = True
        try:
            async with asyncio.timeout(limit):
                await self._transport.end(self._renderer.interrupted(why), why)
                if why.cause is Cause.STALLED:
                    await self._transport.slow.taken()
        except TimeoutError:
            if self._transport.slow.drop():
                await self._transport.end((), None)
