"""Streams over HTTP: server-sent events, or another growing body.

Server-sent events are framed with LF. Each has an ``id``: the cursor ``<log>:<generation>``, which
a client sends when it reconnects.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from headrace.model.entry import Entry
from headrace_gateway.feeds import Feed
from headrace_gateway.server.client_pace import SlowClient, backlog_of
from headrace_gateway.server.http_protocol import free_request, write_body
from headrace_gateway.server.long_responses import NEVER, deferred_of, disconnects_of
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer
from headrace_gateway.streaming.subscription import (
    DirectSubscription,
    Source,
    Subscription,
    Subscriptions,
)

EVENT_STREAM = "text/event-stream"

HEADERS = {
    "content-type": f"{EVENT_STREAM}; charset=utf-8",
    "cache-control": "no-store",
    # Otherwise proxies buffer the stream.
    "x-accel-buffering": "no",
}
"""Headers of every event stream."""

KEEPALIVE = b": keep-alive\n\n"

_RETRY_MS = 500


def frame(cursor: str, data: bytes, name: str = "") -> bytes:
    """Return one event with its cursor, and its name if it has one."""
    named = b"event: %b\n" % name.encode() if name else b""
    return b"id: %b\n%bdata: %b\n\n" % (cursor.encode(), named, data)


def close_notice(reason: str) -> bytes:
    """Return the end of an interrupted stream: the reason, and the reconnect delay (ms)."""
    return b": %b\nretry: %d\n\n" % (reason.replace("\n", " ").encode(), _RETRY_MS)


class LogLines:
    """Events whose ``data:`` is the log's own line."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Frame the entry's lines as they are."""
        log, first = entry.stamp.log.encode(), entry.generation
        return (
            b"".join(
                [
                    b"id: %b:%d\ndata: %b\n\n" % (log, first + offset, line)
                    for offset, line in enumerate(entry.lines)
                    if offset >= skip
                ]
            ),
        )


LOG_LINES = LogLines()


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """A format of growing bodies."""

    headers: Mapping[str, str]
    keepalive: bytes = b""
    """Keep-alive bytes for a silent stream; empty if the format has none."""
    close_notice: Callable[[str], bytes] | None = None
    """Returns the reason of an early end outside of any protocol; None if the format has none."""


EVENTS = BodyFormat(HEADERS, KEEPALIVE, close_notice)
"""Server-sent events."""


class HttpStream:
    """An ASGI application: a subscription over HTTP.

    What is needed only at the beginning is freed then, because thousands of streams may be idle.
    """

    __slots__ = (
        "_after",
        "_body",
        "_disconnects",
        "_headers",
        "_held",
        "_is_head",
        "_renderer",
        "_send",
        "_shared",
        "_start",
        "keepalive",
        "left",
        "slow",
    )

    def __init__(
        self,
        shared: Subscriptions,
        held: AbstractAsyncContextManager[Source],
        after: int,
        renderer: Renderer,
        *,
        headers: Mapping[str, str] | None = None,
        body: BodyFormat = EVENTS,
    ) -> None:
        """Follow the source that it will hold while it is served, from after generation `after`.

        `headers` are added to the body's.
        """
        self._shared, self._held, self._after, self._renderer = shared, held, after, renderer
        self._headers: Mapping[str, str] = {**body.headers, **(headers or {})}
        self._body = body
        self.keepalive: Messages = (body.keepalive,) if body.keepalive else ()
        self.slow = SlowClient(None)
        self.left: Callable[[], object] | None = None
        """Called if the client closes the stream before its end: in some protocols, a cancel."""
        self._disconnects = NEVER
        self._start: Send | None = None
        self._is_head = False
        self._send: Send = _nowhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream; deferred, if possible, until the callers have left the stack."""
        self.slow = SlowClient(backlog_of(scope))
        self._disconnects = disconnects_of(scope, receive)
        # The head is sent through middleware, which may add headers.
        self._start = send
        self._is_head = scope.get("method") == "HEAD"
        if (deferred := deferred_of(scope)) is not None:
            deferred.defer(self._serve)
        else:
            await self._serve(receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:  # noqa: ARG002 - a deferred part's
        self._send = send
        async with self._held as source:
            # No attribute refers to the subscription: a reference cycle would delay freeing both.
            kind = DirectSubscription if isinstance(source, Feed) else Subscription
            subscription = kind(self._shared, source, self._after, self._renderer, self)
            if self._is_head:
                subscription.leave()  # HEAD has no body.
            stop_watching = self._disconnects.watch(subscription.leave)
            try:
                await subscription.run()
            finally:
                stop_watching()
            if self.left is not None and subscription.is_left:
                self.left()

    async def begin(self) -> None:
        """Send the response's head."""
        send, headers = self._start or self._send, self._headers
        self._start, self._headers = None, {}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        with suppress(OSError):  # `_disconnects` reports that the client has disconnected.
            await send({"type": "http.response.start", "status": 200, "headers": raw})
        free_request(self._send)

    async def write(self, messages: Messages) -> None:
        """Send a piece of the body."""
        await self._body_of(b"".join(messages), more=True)

    def write_now(self, messages: Messages) -> bool:
        """Send a piece of the body without waiting; return False if that is not possible."""
        data = b"".join(messages)
        if data and not write_body(self._send, data):
            return False
        self.slow.written += len(data)
        return True

    async def end(self, messages: Messages, why: Interruption | None) -> None:
        """Send the end of the body."""
        last = b"".join(messages)
        if why is not None and self._body.close_notice is not None:
            last += self._body.close_notice(why.reason)
        await self._body_of(last, more=False)

    async def _body_of(self, data: bytes, *, more: bool) -> None:
        try:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        except OSError:
            return  # as in `begin`
        self.slow.written += len(data)


async def _nowhere(message: Message) -> None:
    """Send nothing: the response has not been called yet."""
