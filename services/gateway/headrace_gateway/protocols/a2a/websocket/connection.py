"""One WebSocket: frames in, and any number of streams and answers out, side by side."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.agui_events import agui_opened
from headrace_gateway.protocols.a2a.json_body import parse_object
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.subscribing import NothingLeft
from headrace_gateway.protocols.a2a.versions import check_version, shape_of_call
from headrace_gateway.protocols.a2a.websocket.agui_subscription import AguiSubscription
from headrace_gateway.protocols.a2a.websocket.envelope import Envelope
from headrace_gateway.protocols.a2a.websocket.frames import (
    Asked,
    Unsubscribe,
    envelope_of,
    read_frame,
)
from headrace_gateway.protocols.a2a.websocket.subscription import Subscription
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.protocols.hector.asking import asks_for_it, asks_for_shapes
from headrace_gateway.protocols.hector.messages import completed
from headrace_gateway.refusals import TooManyAtOnce
from headrace_gateway.server.slow_client import SlowClient, backlog_of
from headrace_gateway.server.websocket_closing import TEXT_ONLY, Closing, restarting, try_later
from headrace_gateway.services import Services
from headrace_gateway.websocket_opening import as_of_now

_SEND = "SendStreamingMessage"
_LAST_WORDS = 0.5
"""Seconds that what is under way has to end when the gateway stops."""

_LAST_CHANCE = 5.0
"""Seconds in which a client that took nothing may still begin to, and learn why it ends."""

_log = logging.getLogger(__name__)


class Connection:
    """Serves one client until it goes, breaks the rules, or the gateway stops.

    Each frame's work is a task of its own. They write in turns: a lock that is handed on in the
    order of asking, for a bounded slice each time. Closing a connection never touches a task.
    """

    def __init__(self, services: Services, call: Call, socket: WebSocket) -> None:
        """Serve `socket`, which has been accepted; `call` says who it is and which agent."""
        self._services, self._socket = services, socket
        self._call = replace(call, receive=_never)
        self._jobs: dict[bytes, asyncio.Task[None]] = {}
        self._subscriptions: set[Subscription | AguiSubscription] = set()
        self._turn = asyncio.Lock()
        self._over: asyncio.Future[Closing | None] = asyncio.get_running_loop().create_future()
        self._closing = False
        self._writing = False
        self._patience = _LAST_WORDS
        self._stall = SlowClient(backlog_of(socket.scope))

    async def serve(self) -> None:
        """Serve until it is over."""
        reading = asyncio.create_task(self._read())
        reading.add_done_callback(lambda _: self._end(None))
        self._services.streams.add(self)
        try:
            closing = await self._over
            if self._closing:
                await self._last_words()
            await self._cancel_jobs()
            if closing is not None:
                await self._say_why(closing)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self._cancel_jobs()
            self._services.streams.remove(self)

    def tick(self, now: float) -> None:
        """Give up on a client that takes nothing."""
        if self._over.done():
            return
        if self._stall.seconds(now, writing=self._writing) > self._services.settings.stall_timeout:
            reason = "the client takes nothing"
            _log.info("socket ends: %s", reason)
            self._patience = _LAST_CHANCE
            self._end(try_later(reason))

    def close(self, reason: str) -> None:
        """End soon, telling the client why; it may reconnect with its cursors."""
        self._closing = True
        for subscription in list(self._subscriptions):
            subscription.close()
        self._end(restarting(reason))

    def _end(self, closing: Closing | None) -> None:
        if not self._over.done():
            self._over.set_result(closing)

    async def _last_words(self) -> None:
        if self._jobs:
            await asyncio.wait(self._jobs.values(), timeout=_LAST_WORDS)

    async def _cancel_jobs(self) -> None:
        jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)

    async def _say_why(self, closing: Closing) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            try:
                async with asyncio.timeout(self._patience):
                    await self._socket.close(closing.code, closing.text)
            except TimeoutError:
                self._stall.drop()

    async def _read(self) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            if text is None:
                self._end(TEXT_ONLY)
                return
            await self._take(text)
        self._end(None)

    async def _take(self, text: str) -> None:
        """Begin what a frame asks for, or say why not."""
        envelope = Envelope(b"null")
        try:
            frame = parse_object(self._services.body_limits.check(text.encode()))
            hector = asks_for_shapes(self._socket)
            envelope = replace(envelope_of(frame), hector=hector)
            asked = read_frame(frame)
            if isinstance(asked, Unsubscribe):
                await self._unsubscribe(asked)
            else:
                self._begin(envelope, asked)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            await self._write([envelope.error(problem_of(error))])

    def _begin(self, envelope: Envelope, asked: Asked) -> None:
        if envelope.id in self._jobs:
            raise InvalidRequestError("the id is in use on this connection")
        most = self._services.settings.socket_streams
        if len(self._jobs) >= most:
            raise TooManyAtOnce(f"{most} subscriptions and calls are open on this connection")
        job = asyncio.create_task(self._serve_frame(envelope, asked))
        self._jobs[envelope.id] = job
        job.add_done_callback(lambda _: self._jobs.pop(envelope.id))

    async def _unsubscribe(self, asked: Unsubscribe) -> None:
        job = self._jobs.get(asked.id)
        if job is None:
            raise InvalidRequestError("nothing is open under that id")
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        await self._write([Envelope(asked.id).end()])

    async def _serve_frame(self, envelope: Envelope, asked: Asked) -> None:
        call = replace(
            self._call, cursor=asked.after.strip(), idempotency_key=asked.idempotency_key
        )
        try:
            await self._answer(call, envelope, asked)
        except NothingLeft:
            await self._write([envelope.end()])
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            await self._write([envelope.error(problem_of(error))])

    async def _answer(self, call: Call, envelope: Envelope, asked: Asked) -> None:
        call = as_of_now(self._services, call, self._socket)
        check_version(self._socket, looks_like=shape_of_call(asked.operation))
        if asked.operation in STREAMING:
            await self._stream(call, envelope, asked)
            return
        if (unary := UNARY.get(asked.operation)) is None:
            raise MethodNotFoundError(f"there is no method {asked.operation!r}")
        result = await unary(self._services, call, asked.params)
        if envelope.hector:
            result = shapes.NOTHING | shapes.answered(asked.operation, result)
        await self._write([envelope.result(result)])

    async def _stream(self, call: Call, envelope: Envelope, asked: Asked) -> None:
        seat = self._services.seats.take(call.caller)
        try:
            subscription, feed = await self._subscribed(call, envelope, asked)
            self._subscriptions.add(subscription)
            try:
                if self._closing:
                    subscription.close()
                if await subscription.run():
                    await self._write([envelope.end()])
            finally:
                self._subscriptions.discard(subscription)
                await self._services.feeds.release(feed)
        finally:
            seat.release()

    async def _subscribed(
        self, call: Call, envelope: Envelope, asked: Asked
    ) -> tuple[Subscription | AguiSubscription, Feed]:
        """Carry out what is asked and return what writes its stream, and the feed to release."""
        is_short = asks_for_it(self._socket) or envelope.hector
        params = completed(asked.params) if is_short and asked.operation == _SEND else asked.params
        if asks_for_it(self._socket):
            opened = await agui_opened(self._services, call, asked.operation, params)
            return AguiSubscription(opened, envelope, self._write), opened.streaming.feed
        streaming = await STREAMING[asked.operation](self._services, call, params)
        return Subscription(call, streaming, envelope, self._write), streaming.feed

    async def _write(self, messages: Sequence[bytes]) -> None:
        async with self._turn:
            for message in messages:
                self._writing = True
                try:
                    await self._socket.send({"type": "websocket.send", "text": message.decode()})
                except (WebSocketDisconnect, RuntimeError):  # The latter from the second write on.
                    self._end(None)
                finally:
                    self._writing = False
                    self._stall.wrote(len(message))


async def _never() -> Message:
    """Tell nothing of the client: its calls are cancelled when it goes."""
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
