"""A WebSocket of an AG-UI client: one input per frame in, one event per frame out.

Several runs may share a socket, one after the other, because events do not name their run. An input
that arrives during a run is queued. A frame ``{"attach": {"threadId", "runId"?, "after"?}}``
reconnects to a run. Either frame may also have a member ``traceparent``. Clients that request
cursors get ``{"cursor", "event"}`` for each event, with ``"recovered": false`` if the events after
the client's cursor are lost.
"""

import asyncio
from contextlib import AsyncExitStack

from starlette.websockets import WebSocket

from headrace.model import json_text
from headrace.model.cursor import FrameCursor
from headrace.model.events import Json
from headrace_gateway.call import SocketCalls
from headrace_gateway.json_errors import error_answer, json_object
from headrace_gateway.protocols.agui.extras import in_query
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.named_run import attach_frame, frame_traceparent
from headrace_gateway.protocols.agui.open_run import open_again, open_run
from headrace_gateway.protocols.agui.run_frames import OpenedRun
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.run_stream import RunRenderer
from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import HeldBody
from headrace_gateway.server.open_requests import name_operation
from headrace_gateway.server.websocket_close import refused
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Messages
from headrace_gateway.streaming.websocket import SocketConnection

MOST_WAITING = 16
"""Maximum number of queued inputs on one socket."""


class RunSession:
    """Serves the runs of one client, one after the other."""

    def __init__(
        self,
        services: Services,
        calls: SocketCalls,
        socket: WebSocket,
        connection: SocketConnection,
        *,
        cursors: bool = False,
    ) -> None:
        """Answer over `connection`; with `cursors`, send each event's cursor."""
        self._services, self._calls, self._socket = services, calls, socket
        self._connection, self._cursors = connection, cursors
        self._turn = asyncio.Lock()

    async def handle(self, text: str) -> None:
        """Queue an input."""
        if self._connection.jobs > MOST_WAITING:
            self._connection.end(refused(f"{MOST_WAITING} inputs are waiting already, the maximum"))
            return
        body = text.encode()
        try:
            held = self._services.body_limits.held.hold(self._calls.caller, len(body))
        except (TooManyBytes, TooManyBytesOfOwner) as many:
            refusal = self._calls.counted(many)
            self._connection.refused(refusal)
            await self._refuse(refusal)
            return
        run = self._connection.start(self._run(body, held))
        run.add_done_callback(lambda _: held.release())

    async def _run(self, body: bytes, held: HeldBody) -> None:
        """Serve one run; errors are sent as RUN_ERROR."""
        async with self._turn:
            if self._connection.is_closing:
                return
            try:
                async with AsyncExitStack() as holding:
                    async with self._connection.open_request():
                        # First, so that what is refused below counts.
                        caller = self._calls.authenticate()
                        permit = self._services.stream_limits.acquire(caller)
                        holding.callback(permit.release)
                        self._calls.check_rate(len(body))
                        opening = self._open(caller, self._services.body_limits.check(body))
                        opened = await holding.enter_async_context(await opening)
                    body = b""  # Free the body: the run may take long.
                    held.release()
                    await self._stream(opened)
            except Exception as error:  # noqa: BLE001 - all errors are reported to the client
                await self._refuse(error)

    async def _open(self, caller: Caller, body: bytes) -> OpenedRun:
        frame = json_object(body)
        traceparent, named = frame_traceparent(frame), attach_frame(frame)
        if named is None:
            name_operation("SendStreamingMessage")
            run_input = RunInput.of(frame, in_query(self._socket.query_params))
            call = await self._calls.call(
                "SendStreamingMessage",
                caller=caller,
                traceparent=traceparent,
                thread=run_input.thread,
            )
            return await open_run(self._services, call, run_input)
        run, cursor = named
        call = await self._calls.call(
            "SubscribeToTask",
            caller=caller,
            cursor=cursor,
            traceparent=traceparent,
            thread=run.thread,
        )
        return await open_again(self._services, call, run)

    async def _stream(self, opened: OpenedRun) -> None:
        def encode(frames: list[AguiFrame]) -> Messages:
            return [json_text.encode(self._message(opened, frame)) for frame in frames]

        renderer = RunRenderer(opened.frames, encode)
        await self._connection.stream(opened.feed, 0, renderer)

    async def _refuse(self, error: Exception) -> None:
        _, code, message, _ = error_answer(error)
        event: Json = {"type": "RUN_ERROR", "message": message, "code": code}
        # The error belongs to no run, so it has no cursor.
        await self._connection.write(
            [json_text.encode({"event": event} if self._cursors else event)]
        )

    def _message(self, opened: OpenedRun, frame: AguiFrame) -> Json:
        if not self._cursors:
            return frame.event
        if not frame.generation:
            return {"event": frame.event}
        cursor = FrameCursor(opened.log, *frame.place)
        lost = {} if opened.recovered else {"recovered": False}
        opened.recovered = True
        return {"cursor": str(cursor), "event": frame.event} | lost
