"""The loop that follows a feed for one client; every stream of every protocol uses it.

It reads past and then new events, has them rendered, and writes them. It keeps a silent stream
alive, detects a client that reads nothing, and ends with the task, the gateway, or the log. The
renderer decides what is sent; the transport decides how.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from headrace_gateway.feeds import MOST, FeedReader
from headrace_gateway.server.client_pace import SlowClient
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer

_log = logging.getLogger(__name__)

_LITTLE = 32 * 1024
"""Approximate bytes of events per read for a client that has not received the last ones."""

_UNSEEN = 64 * 1024
"""The same for clients whose received bytes can't be measured."""

INTERRUPTION_TIMEOUTS = {Cause.STALLED: 5.0, Cause.STOPPING: 1.0}
"""Seconds that a client has to receive why its stream ends; other causes use the stall timeout."""

STOPPED_READING = "the client stopped reading"


class Transport(Protocol):
    """Writes rendered messages to one client."""

    slow: SlowClient
    keepalive: Messages
    """Written after a silence; empty if not needed or not possible."""

    async def begin(self) -> None:
        """Write what precedes all messages."""

    async def write(self, messages: Messages) -> None:
        """Write; return when more may be written. A cancelled write wrote whole messages."""

    async def end(self, messages: Messages, why: Interruption | None) -> None:
        """Write the last messages, and the end or interruption of the stream."""


class SourceReader(Protocol):
    """Reads a source from one place on, each block once."""

    after: int
    """The generation of the last event, or the number of the last change, that was read."""
    most: int
    """Approximate bytes that one read returns."""

    async def read_now(self) -> Sequence[Any]:
        """Return the next blocks, without waiting for new ones."""

    @property
    def at_end(self) -> bool:
        """Whether everything was read and nothing can follow."""

    @property
    def run_ended(self) -> bool:
        """Whether everything was read, and the newest event ended a run."""

    async def wait(self) -> None:
        """Return at the source's next change, or after `wake` is called."""

    def wake(self) -> None:
        """Make `wait` return."""


class Source(Protocol):
    """What a subscription follows: a task's feed, or other changes."""

    @property
    def name(self) -> str:
        """Its name in logs."""

    def reader(self, after: int) -> SourceReader:
        """Return a reader of what follows `after`."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """The services that all subscriptions of a gateway share."""

    open: OpenStreams
    requests: OpenRequests
    settings: GatewaySettings


class Subscription:
    """One source for one client, until the run ends or the client disconnects.

    A client that disconnects ends only its stream, never the task. Thousands may be idle.
    """

    __slots__ = (
        "_cut",
        "_feed",
        "_gone",
        "_is_new",
        "_most",
        "_reader",
        "_renderer",
        "_shared",
        "_silent_since",
        "_stopping",
        "_task",
        "_transport",
        "_why",
        "_writing",
    )

    def __init__(
        self,
        shared: Subscriptions,
        feed: Source,
        after: int,
        renderer: Renderer,
        transport: Transport,
    ) -> None:
        """Follow `feed`, which the caller holds, from after generation `after`."""
        self._shared, self._feed, self._reader = shared, feed, feed.reader(after)
        self._renderer, self._transport = renderer, transport
        self._why: Interruption | None = None
        self._task: asyncio.Task[object] | None = None
        self._gone = self._writing = self._cut = False
        self._is_new = True
        """Whether the client may have received nothing yet."""
        self._stopping: Interruption | None = None
        """With what the stream ends once its client has received what is there now."""
        self._silent_since = 0.0
        self._most = _LITTLE

    async def run(self) -> Interruption | None:
        """Serve the client; return the interruption if the stream ended early.

        The subscription is registered in the gateway's open streams, which call `tick` and `close`.
        """
        self._shared.open.add(self)
        try:
            return await self.serve()
        finally:
            self._shared.open.remove(self)

    async def serve(self) -> Interruption | None:
        """Serve as `run` does, but the caller calls `tick` and `close`."""
        self._task = asyncio.current_task()
        self._silent_since = asyncio.get_running_loop().time()
        try:
            await self._follow()
        except asyncio.CancelledError:
            if not self._cut or self._task is None or self._task.uncancel():
                raise
        except Exception as error:  # noqa: BLE001 - every error is sent to the client
            self._why = self._why or Interruption.by(error)
        if self._gone:
            await self._transport.end((), None)
        elif self._why is not None:
            await self._interrupt(self._why)
        return self._why

    def tick(self, now: float) -> None:
        """Keep a silent stream alive; interrupt one whose client reads nothing."""
        settings, slow = self._shared.settings, self._transport.slow
        if slow.seconds(now, writing=self._writing) > settings.stall_timeout:
            self.interrupt(Interruption(Cause.STALLED, STOPPED_READING))
        elif not self._writing and now - self._silent_since > settings.keepalive:
            self._reader.wake()

    def close(self, reason: str) -> None:
        """End soon with `reason`, because the gateway stops."""
        self.interrupt(Interruption(Cause.STOPPING, reason))

    def interrupt(self, why: Interruption) -> None:
        """End soon and send why; does not wait for a pending write.

        When the gateway stops, a new stream sends first what is in memory: only the first event
        names the task to a client that has sent a message.
        """
        if self._why is not None:
            return
        if self._is_new and why.cause is Cause.STOPPING:
            self._stopping = why
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
        """Whether the client has disconnected."""
        return self._gone

    def leave(self) -> None:
        """End soon, because the client has disconnected."""
        self._gone = True
        self._reader.wake()

    async def _follow(self) -> None:
        """Write until the stream is over, including its end, or must end early."""
        reader, renderer = self._reader, self._renderer
        self._writing = True
        await self._transport.begin()
        self._writing = False
        if opening := renderer.opening():
            await self._write(opening)
        while self._why is None and not self._gone:
            if self._transport.slow.buffered:
                await self._wait_for_room()
            self._grow_reads()
            after = reader.after
            blocks = await (reader.read_now() if self._stopping is None else self._read_memory())
            if not blocks and reader.at_end:
                await self._end(renderer.ending())
                return
            messages = renderer.render(blocks, after) if blocks else await self._wait()
            if messages is None:
                continue
            if renderer.is_over(run_ended=reader.run_ended):
                # Together with the end, which saves one write and one wake-up of the client.
                await self._end([*messages, *renderer.ending()])
                return
            del blocks  # Free them while a slow client receives the messages.
            if messages:
                await self._write(messages)
                del messages

    def _mark_begun(self) -> None:
        """Note that the client has received what was there; end if the gateway stops."""
        self._is_new = False
        self._why = self._why or self._stopping

    async def _read_memory(self) -> Sequence[Any]:
        """Return the next blocks that are in memory: a read of the log may take too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                return await self._reader.read_now()
        return ()

    async def _wait_for_room(self) -> None:
        """Wait until the client has received most of its bytes."""
        # Events read before there is room would only be kept in memory.
        self._writing = True
        await self._transport.slow.drain()
        self._writing = False
        self._most = _LITTLE

    def _grow_reads(self) -> None:
        """Read more at a time for a client that keeps up."""
        self._reader.most = self._most
        self._most = min(2 * self._most, MOST if self._transport.slow.is_visible else _UNSEEN)

    async def _wait(self) -> Messages | None:
        """Wait for a change; return what was rendered meanwhile and is still to be written."""
        if self._is_new:
            self._mark_begun()
        if self._why is not None or self._gone:
            return None
        await self._changed()
        messages = self._rendered_meanwhile()
        now = asyncio.get_running_loop().time()
        if now - self._silent_since > self._shared.settings.keepalive and self._why is None:
            await self._write(self._transport.keepalive)
        return messages

    def _changed(self) -> Awaitable[None]:
        """Wait for a change. No coroutine of its own: each takes 200 bytes of an idle stream."""
        return self._reader.wait()

    def _rendered_meanwhile(self) -> Messages | None:
        """Return what was rendered during the wait and is not written yet; here there is none."""
        return None

    async def _write(self, messages: Messages) -> None:
        """Write unless the stream must end; reset the keep-alive timer."""
        if self._why is None and messages:
            self._writing = True
            await self._transport.write(messages)
            self._writing = False
            if self._is_new:
                self._mark_begun()
        self._silent_since = asyncio.get_running_loop().time()

    async def _end(self, messages: Messages) -> None:
        if self._why is None:
            self._writing = True
            await self._transport.end(messages, None)
            self._writing = False

    async def _interrupt(self, why: Interruption) -> None:
        """Send the client why its stream ends early, within a time limit."""
        _log.info("stream of %s ends: %s", self._feed.name, why.reason)
        limit = INTERRUPTION_TIMEOUTS.get(why.cause, self._shared.settings.stall_timeout)
        self._writing = True
        try:
            async with asyncio.timeout(limit):
                await self._transport.end(self._renderer.interrupted(why), why)
                if why.cause is Cause.STALLED:
                    await self._transport.slow.taken()
        except TimeoutError:
            if self._transport.slow.drop():
                await self._transport.end((), None)


class DirectTransport(Transport, Protocol):
    """A transport that can write without waiting."""

    def write_now(self, messages: Messages) -> bool:
        """Write without waiting; return False if nothing was written, because it has to wait."""


class DirectSubscription(Subscription):
    """A feed for a client whose transport can write without waiting.

    It writes most entries without waking its task. For the usual case, a few entries for a client
    that keeps up, waking the task would cost as much as all else. Its source is a feed, which has
    new entries in memory; other sources and transports have a plain `Subscription`.
    """

    __slots__ = ("_rendered",)

    _reader: FeedReader
    _transport: DirectTransport
    _rendered: Messages | None
    """Rendered while the task waited, and not written yet."""

    def _changed(self) -> Awaitable[None]:
        self._rendered = None
        return self._reader.wait(self._serve)

    def _rendered_meanwhile(self) -> Messages | None:
        rendered, self._rendered = self._rendered, None
        return None if self._gone else rendered

    def _serve(self) -> bool:
        """Write what has followed while the task waits for it; return False if the task has to."""
        if self._why is not None or self._gone or self._transport.slow.buffered:
            return False
        reader, renderer = self._reader, self._renderer
        if reader.most < MOST:
            self._grow_reads()
        after = reader.after
        try:
            blocks = reader.read_ring()
            if not blocks:
                return blocks is not None and not reader.at_end
            messages = renderer.render(blocks, after)
            is_over = renderer.is_over(run_ended=reader.run_ended)
        except Exception as error:  # noqa: BLE001 - every error is sent to the client
            self._why = Interruption.by(error)
            return False
        if is_over or (messages and not self._transport.write_now(messages)):
            self._rendered = messages
            return False
        if messages:
            self._silent_since = asyncio.get_running_loop().time()
        # One read has a limit, and nothing may follow that would have the rest read.
        return not reader.is_behind
