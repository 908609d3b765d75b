"""The response that streams a feed to one client."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from starlette.types import Message, Receive, Scope, Send

from headrace.model.errors import BusUnavailable, LogLost
from headrace_gateway.feeds import MOST, Dialect, Feed, Feeds
from headrace_gateway.server.backlog import backlog_of
from headrace_gateway.server.deferred_response import lasting_of
from headrace_gateway.server.slow_client import Stall
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.sse import HEADERS, KEEPALIVE, farewell
from headrace_gateway.streams import Streams

_log = logging.getLogger(__name__)

_LITTLE = 32 * 1024
"""About how many bytes of events a client gets at a time that has not taken the last ones."""


class EventStreams:
    """Makes the event streams of a gateway."""

    def __init__(self, feeds: Feeds, streams: Streams, settings: GatewaySettings) -> None:
        """Serve streams of `feeds`, registered in `streams`."""
        self.feeds, self.streams, self.settings = feeds, streams, settings

    def of(  # noqa: PLR0913 - by keyword
        self,
        feed: Feed,
        after: int,
        dialect: Dialect,
        *,
        splice: bytes = b"",
        first: bytes = b"",
        headers: Mapping[str, str] | None = None,
        ending: bytes = b"",
    ) -> "EventStream":
        """Return a response that streams `feed` from behind generation `after` on.

        It takes over the caller's use of the feed. `first` are ready frames that lead; `splice`
        goes where the dialect leaves room for the client's envelope; `headers` come on top, and
        `ending` comes last where the stream is over.
        """
        headers = HEADERS | dict(headers or {})
        if ending:
            return _EndingStream(self, feed, after, dialect, splice, first, headers).with_(ending)
        return EventStream(self, feed, after, dialect, splice, first, headers)


class EventStream:
    """An ASGI application: one feed, one client, until the task ends or asks for input.

    A client that goes away ends only the stream, never the task (promise 5). Of what it needs to
    begin it keeps nothing: there may be thousands, idle.
    """

    __slots__ = (
        "_begin",
        "_closing",
        "_dialect",
        "_feed",
        "_first",
        "_gone",
        "_headers",
        "_most",
        "_owner",
        "_quiet_since",
        "_reader",
        "_splice",
        "_stall",
        "_task",
        "_writing",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - made in one place, by EventStreams.of
        self,
        owner: EventStreams,
        feed: Feed,
        after: int,
        dialect: Dialect,
        splice: bytes,
        first: bytes,
        headers: Mapping[str, str],
    ) -> None:
        """See `EventStreams.of`."""
        self._owner, self._feed, self._reader = owner, feed, feed.reader(after)
        self._dialect, self._splice, self._first = dialect, splice, first
        self._headers = headers
        self._begin: Send | None = None
        self._gone, self._closing = False, ""
        self._quiet_since = 0.0
        self._writing = False
        self._stall = Stall(None)
        self._most = _LITTLE
        self._task: asyncio.Task[object] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream, where possible when all that led to it is no longer on the stack."""
        self._stall = Stall(backlog_of(scope))
        # Middleware has its say in the head.
        self._begin = send
        if scope.get("method") == "HEAD":
            self._gone = True  # for a body
        if (lasting := lasting_of(scope)) is not None:
            lasting.leave(self._serve)
        else:
            await self._serve(receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:
        self._task = asyncio.current_task()
        self._quiet_since = asyncio.get_running_loop().time()
        watch = asyncio.create_task(self._watch(receive))
        self._owner.streams.add(self)
        try:
            await self._send(self._begin or send, _start(self._headers))
            self._headers, self._begin = {}, None
            last = await self._pump(send)
            # With the end of the body: one write, and one wake of the client, fewer.
            await self._send(send, _body(last, more=False))
        except asyncio.CancelledError:
            if not self._closing:
                raise
        finally:
            watch.cancel()
            self._owner.streams.remove(self)
            await self._owner.feeds.release(self._feed)

    def tick(self, now: float) -> None:
        """Send a comment after a silence; give up on a client that takes nothing."""
        if self._stall.seconds(now, writing=self._writing) > self._owner.settings.stall_timeout:
            self._give_up()
        elif not self._writing and now - self._quiet_since > self._owner.settings.keepalive:
            self._reader.wake()

    def _give_up(self) -> None:
        self._closing = "the client takes nothing"
        _log.info("stream of %s ends: %s", self._feed.key.task, self._closing)
        if not self._stall.end() and self._task is not None:
            self._task.cancel()

    def close(self, reason: str) -> None:
        """End soon and say why; the client may reconnect with its cursor."""
        self._closing = reason
        self._reader.wake()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._reader.wake()

    async def _pump(self, send: Send) -> bytes:
        """Write until the stream is over; return what is to be written last."""
        try:
            if self._first:
                await self._write(send, self._first)
                self._first = b""
            while not self._gone and not self._closing:
                if (last := await self._forward(send)) is not None:
                    return last
        except (LogLost, BusUnavailable) as trouble:
            _log.info("stream of %s ends: %s", self._feed.key.task, trouble)
            self._closing = str(trouble)
        return b"" if self._gone else farewell(self._closing)

    async def _forward(self, send: Send) -> bytes | None:
        """Write what there is, or wait; where that ends the stream, return it unwritten."""
        await self._make_room(send)
        after = self._reader.after
        blocks = await self._reader.read_now()
        if not blocks:
            return await self._wait(send)
        data = b"".join([block.render(self._dialect, self._splice, after) for block in blocks])
        newest = blocks[-1].entry
        if newest.ends_leg and newest.last_generation == self._feed.head:
            return data
        del blocks, newest  # Not to be held for as long as a slow client takes over `data`.
        await self._write(send, data)
        return None

    async def _make_room(self, send: Send) -> None:
        """Wait until the client has taken most of what it has; read more at a time if it has."""
        if self._stall.buffered:
            # What is fetched before there is room for it would only be held meanwhile.
            await self._write(send, b"")
            self._most = _LITTLE
        self._reader.most = self._most
        self._most = min(2 * self._most, MOST)

    async def _wait(self, send: Send) -> bytes | None:
        if self._reader.at_end:
            return b""
        await self._reader.wait()
        now = asyncio.get_running_loop().time()
        if now - self._quiet_since > self._owner.settings.keepalive and not self._closing:
            await self._write(send, KEEPALIVE)
        return None

    async def _write(self, send: Send, data: bytes) -> None:
        await self._send(send, _body(data, more=True))

    async def _send(self, send: Send, message: Message) -> None:
        self._writing = True
        with suppress(OSError):  # a client that went away is noticed by `_watch`
            await send(message)
        self._writing = False
        self._stall.wrote(len(message.get("body", b"")))
        self._quiet_since = asyncio.get_running_loop().time()


class _EndingStream(EventStream):
    """A stream that says that it is over, to clients that wait for that."""

    __slots__ = ("_ending",)

    _ending: bytes

    def with_(self, ending: bytes) -> "_EndingStream":
        """Return itself, to end with `ending`."""
        self._ending = ending
        return self

    async def _pump(self, send: Send) -> bytes:
        last = await super()._pump(send)
        return last if self._gone or self._closing else last + self._ending


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


def _start(headers: Mapping[str, str]) -> Message:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": 200, "headers": raw}
