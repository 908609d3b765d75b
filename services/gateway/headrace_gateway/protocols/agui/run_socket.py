"""One WebSocket of an AG-UI client: an input in one frame, its run's events out, one per frame.

Several runs may share a socket, one after the other: events do not say which run they are of. An
input that comes meanwhile waits for its turn. A frame ``{"attach": {"threadId", "runId"?,
"after"?}}`` comes back to a run instead. Who wants cursors gets ``{"cursor", "event"}`` for each
event, with ``"recovered": false`` where what came after the client's own is lost.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace.model.errors import BusUnavailable, LogLost
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.cursor import FrameCursor
from headrace_gateway.protocols.agui.extras import in_query
from headrace_gateway.protocols.agui.frame import Frame
from headrace_gateway.protocols.agui.named_run import attach_frame
from headrace_gateway.protocols.agui.opened import Opened
from headrace_gateway.protocols.agui.opening import open_again, open_run
from headrace_gateway.protocols.agui.refusal import told
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.run_stream import DISCONNECTED, LOG_LOST
from headrace_gateway.server.slow_client import SlowClient, backlog_of
from headrace_gateway.server.websocket_closing import TEXT_ONLY, Closing, refused, restarting
from headrace_gateway.services import Services
from headrace_gateway.websocket_opening import as_of_now

MOST_WAITING = 16
"""Inputs that may wait for their turn on one socket."""

_LAST_WORDS = 0.5


class RunSocket:
    """Serves one client until it goes, breaks the rules, or the gateway stops."""

    def __init__(
        self, services: Services, call: Call, socket: WebSocket, *, cursors: bool = False
    ) -> None:
        """Serve `socket`, which has been accepted; with `cursors`, tell each event's."""
        self._cursors = cursors
        self._services, self._call, self._socket = services, call, socket
        self._inputs: asyncio.Queue[str | None] = asyncio.Queue(MOST_WAITING + 1)
        self._opened: Opened | None = None
        self._gone, self._closing = False, ""
        self._last: Closing | None = None
        self._writing = False
        self._stall = SlowClient(backlog_of(socket.scope))
        self._task: asyncio.Task[object] | None = None

    async def serve(self) -> None:
        """Serve until it is over."""
        self._task = asyncio.current_task()
        receiving = asyncio.create_task(self._receive())
        self._services.streams.add(self)
        try:
            while not self._over and (text := await self._inputs.get()) is not None:
                await self._run(text)
            await self._say_why()
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            self._services.streams.remove(self)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def tick(self, now: float) -> None:
        """Give up on a client that takes nothing."""
        if self._stall.seconds(now, writing=self._writing) > self._services.settings.stall_timeout:
            self._gone = True
            self._stall.drop()
            if self._task is not None:
                self._task.cancel()

    def close(self, reason: str) -> None:
        """End soon, telling the client why."""
        self._closing = reason
        self._end(restarting(reason))

    @property
    def _over(self) -> bool:
        return self._gone or self._last is not None

    def _end(self, last: Closing | None) -> None:
        self._last = last
        with suppress(asyncio.QueueFull):
            self._inputs.put_nowait(None)
        if self._opened is not None:
            self._opened.reader.wake()

    async def _receive(self) -> None:
        while (message := await self._socket.receive())["type"] != "websocket.disconnect":
            text = message.get("text")
            if text is None:
                self._end(TEXT_ONLY)
            elif self._inputs.qsize() >= MOST_WAITING:
                self._end(refused(f"{MOST_WAITING} inputs wait for their turn"))
            else:
                self._inputs.put_nowait(text)
        self._gone = True
        self._end(None)

    async def _run(self, text: str) -> None:
        """Serve one run; why there is none is told as the protocol tells a failure."""
        try:
            seat = self._services.seats.take(self._call.caller)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            await self._refuse(error)
            return
        try:
            body = self._services.body_limits.check(text.encode())
            self._opened = await self._open(body)
            await self._stream(self._opened)
        except WebSocketDisconnect:
            self._gone = True
        except Exception as error:  # noqa: BLE001 - as above
            await self._refuse(error)
        finally:
            seat.release()
            if self._opened is not None:
                opened, self._opened = self._opened, None
                await self._services.feeds.release(opened.feed)

    async def _open(self, body: bytes) -> Opened:
        call = as_of_now(self._services, self._call, self._socket)
        named = attach_frame(body)
        if named is None:
            asked = RunInput.read(body, in_query(self._socket.query_params))
            return await open_run(self._services, call, asked)
        run, cursor = named
        return await open_again(self._services, replace(call, cursor=cursor), run)

    async def _stream(self, opened: Opened) -> None:
        frames, reader = opened.frames, opened.reader
        try:
            while not frames.over and not self._over and not reader.at_end:
                blocks = await reader.read_now()
                for block in blocks:
                    await self._write(frames.read(block.entry))
                if not blocks and not self._over:
                    await reader.wait()
        except (LogLost, BusUnavailable) as trouble:
            await self._write(frames.broken(LOG_LOST, str(trouble)))
        if not frames.over and not self._gone:
            reason = self._closing or "the stream ended before the run did"
            await self._write(frames.broken(DISCONNECTED, reason))

    async def _refuse(self, error: Exception) -> None:
        _, code, message, _ = told(error)
        event = {"type": "RUN_ERROR", "message": message, "code": code}
        with suppress(WebSocketDisconnect):
            await self._write([Frame(0, 0, event)])

    async def _write(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            if self._gone:
                return
            text = orjson.dumps(self._told(frame)).decode()
            self._writing = True
            await self._socket.send({"type": "websocket.send", "text": text})
            self._writing = False
            self._stall.wrote(len(text))

    def _told(self, frame: Frame) -> Json:
        if not self._cursors:
            return frame.event
        if self._opened is None or not frame.generation:
            return {"event": frame.event}  # Of no run, nor any place in its log.
        cursor = FrameCursor(self._opened.log, *frame.place)
        lost = {} if self._opened.recovered else {"recovered": False}
        self._opened.recovered = True
        return {"cursor": str(cursor), "event": frame.event} | lost

    async def _say_why(self) -> None:
        if self._last is None or self._gone:
            return
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._socket.close(self._last.code, self._last.text)
