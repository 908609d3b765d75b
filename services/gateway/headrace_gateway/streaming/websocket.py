"""WebSockets: any number of concurrent streams and answers over one connection.

Each stream or answer is a job. Jobs take turns with writes of limited size, in the order of their
requests for the lock. Closing a connection never affects a task.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace_gateway.server.client_pace import SlowClient, backlog_of
from headrace_gateway.server.open_requests import OpenRequest, protocol_of
from headrace_gateway.server.websocket_close import TEXT_ONLY, CloseReason, restarting, try_later
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.subscription import (
    INTERRUPTION_TIMEOUTS,
    STOPPED_READING,
    Source,
    Subscription,
    Subscriptions,
)

_SLICE = 64 * 1024
"""Approximate bytes that a job writes before other jobs have their turn."""

ANSWERS = 0.5
"""Seconds in which requests must be answered when their connection ends."""

_log = logging.getLogger(__name__)


class Session(Protocol):
    """A protocol's handling of one client's frames."""

    async def handle(self, text: str) -> None:
        """Handle a frame, or answer why it is refused; lasting work is a job of the connection."""


class SocketConnection:
    """Serves one client until it disconnects, breaks the rules, or the gateway stops."""

    def __init__(self, shared: Subscriptions, socket: WebSocket) -> None:
        """Serve `socket`, which must be accepted before `serve`."""
        self._shared, self._socket = shared, socket
        self._protocol = protocol_of(socket.scope)
        self._jobs = set[asyncio.Task[None]]()
        self._subscriptions = set[Subscription]()
        self._turn = asyncio.Lock()
        self._over: asyncio.Future[CloseReason | None] = asyncio.get_running_loop().create_future()
        self._why: Interruption | None = None
        self._requests = set[OpenRequest]()
        self._writing = False
        self.slow = SlowClient(backlog_of(socket.scope))

    @property
    def jobs(self) -> int:
        """The number of running jobs."""
        return len(self._jobs)

    @property
    def is_closing(self) -> bool:
        """Whether no new jobs may begin."""
        return self._over.done()

    async def serve(self, session: Session) -> None:
        """Serve until the connection ends."""
        reading = asyncio.create_task(self._read(session))
        reading.add_done_callback(lambda _: self.end(None))
        self._shared.open.add(self)
        try:
            closing = await self._over
            await self._finish(closing)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._cancel_jobs()
            self._shared.open.remove(self)

    def start(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a job, which is cancelled when the client disconnects."""
        task = asyncio.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task

    @asynccontextmanager
    async def open_request(self) -> AsyncIterator[None]:
        """Run a client's request in a block; it is abandoned soon after the connection ends.

        Raises:
            HeadraceError: as `OpenRequests.one`.
        """
        async with self._shared.requests.one(self._protocol, "websocket") as request:
            self._requests.add(request)
            try:
                yield
            finally:
                self._requests.discard(request)

    def refused(self, error: Exception) -> None:
        """Count a frame that `error` refused before its request began."""
        self._shared.requests.refused(self._protocol, "websocket", error)

    async def stream(self, feed: Source, after: int, renderer: Renderer) -> Interruption | None:
        """Serve a subscription of `feed`, which the caller holds. See `Subscription.run`."""
        subscription = Subscription(
            self._shared, feed, after, renderer, _SubscriptionTransport(self)
        )
        self._subscriptions.add(subscription)
        try:
            if self._why is not None:
                subscription.interrupt(self._why)
            return await subscription.serve()
        finally:
            self._subscriptions.discard(subscription)

    async def write(self, messages: Messages) -> None:
        """Send messages, in slices that take turns with other jobs."""
        start, size = 0, 0
        for number, message in enumerate(messages, 1):
            size += len(message)
            if size > _SLICE:
                await self._send(messages[start:number])
                start, size = number, 0
        if start < len(messages):
            await self._send(messages[start:])

    def end(self, closing: CloseReason | None) -> None:
        """End with a close frame; None means that the client has disconnected."""
        if not self._over.done():
            self._over.set_result(closing)

    def tick(self, now: float) -> None:
        """Interrupt the connection if its client reads nothing."""
        stall = self._shared.settings.stall_timeout
        if not self.is_closing and self.slow.seconds(now, writing=self._writing) > stall:
            _log.info("socket ends: %s", STOPPED_READING)
            self._interrupt(
                Interruption(Cause.STALLED, STOPPED_READING), try_later(STOPPED_READING)
            )

    def close(self, reason: str) -> None:
        """End soon with `reason`; the client may reconnect with its cursors."""
        self._interrupt(Interruption(Cause.STOPPING, reason), restarting(reason))

    def _interrupt(self, why: Interruption, closing: CloseReason) -> None:
        self._why = self._why or why
        for subscription in list(self._subscriptions):
            subscription.interrupt(why)
        self.end(closing)

    async def _finish(self, closing: CloseReason | None) -> None:
        """Let interrupted streams send their end, then close the connection with the reason."""
        cause = self._why.cause if self._why is not None else Cause.STOPPING
        if self._why is not None:
            await self._give_up()
        try:
            async with asyncio.timeout(INTERRUPTION_TIMEOUTS[cause]):
                if self._why is not None and self._jobs:
                    await asyncio.wait(self._jobs)
                await self._cancel_jobs()
                if closing is not None:
                    with suppress(WebSocketDisconnect, RuntimeError):
                        await self._socket.close(closing.code, closing.text)
        except TimeoutError:
            self.slow.drop()

    async def _give_up(self) -> None:
        """Abandon requests that are not answered within `ANSWERS` seconds."""
        if self._requests:
            await asyncio.wait(self._jobs, timeout=ANSWERS)
        for request in list(self._requests):
            request.give_up()

    async def _cancel_jobs(self) -> None:
        jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _read(self, session: Session) -> None:
        while await self._handle_next(session):
            pass  # Locals of `_handle_next` are freed while waiting for the next frame.

    async def _handle_next(self, session: Session) -> bool:
        """Handle the next frame; return whether more may come."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            return False
        if self.is_closing:
            return True  # The close frame informs the client, which retries at another gateway.
        text = message.get("text")
        if text is None:
            self.end(TEXT_ONLY)
            return False
        await session.handle(text)
        return True

    async def _send(self, messages: Messages) -> None:
        async with self._turn:
            for message in messages:
                self._writing = True
                try:
                    await self._socket.send({"type": "websocket.send", "text": message.decode()})
                except (WebSocketDisconnect, RuntimeError):  # The latter from the second on.
                    self.end(None)
                finally:
                    self._writing = False
                    self.slow.written += len(message)


class _SubscriptionTransport:
    """One subscription's part of a connection; keep-alive and stalls concern the whole of that."""

    __slots__ = ("_connection", "keepalive", "slow")

    def __init__(self, connection: SocketConnection) -> None:
        self._connection, self.slow = connection, connection.slow
        self.keepalive: Messages = ()

    async def begin(self) -> None:
        """Do nothing: each message names its stream."""

    async def write(self, messages: Messages) -> None:
        """Send messages."""
        await self._connection.write(messages)

    async def end(self, messages: Messages, why: Interruption | None) -> None:  # noqa: ARG002
        """Send the last messages; the connection stays open."""
        await self._connection.write(messages)
