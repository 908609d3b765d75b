"""WebSocket connections: limits on incomplete messages, and the backlog of unread bytes."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.body import HeldBody
from headrace_gateway.server.http_protocol import HOLD_BY, ServerConfig, abort_later
from headrace_gateway.server.slow_client import EXTENSION, Backlog

MOST_FRAMES = 16 * 1024
"""Maximum frames of one WebSocket message; empty frames count, because they use memory too."""

_INCOMPLETE = "the message was not received within the time limit"

_TOO_MANY_FRAMES = f"the message has more than {MOST_FRAMES} frames"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's protocol for WebSockets, with its backlog in the scope.

    Uvicorn itself would store an incomplete message forever, in any number of frames. It would also
    answer pings whether or not the client reads the answers.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's, passed on
        """Pass the arguments to uvicorn."""
        super().__init__(*arguments, **named)
        self._timing = cast("ServerConfig", self.config).timing
        self._deadline = self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pong: list[bytes] = []
        """The answer to the newest ping, while the client reads nothing."""
        self._held: HeldBody | None = None
        self._partial = self._complete = 0
        """Bytes of the incomplete message, and of complete messages not yet received by the app."""

    def data_received(self, data: bytes) -> None:
        """Parse `data`, and start or stop the timer for the rest of a message."""
        self._partial += len(data)
        super().data_received(data)
        is_partial = bool(self.frames or self.conn.reader.buffer)
        if not is_partial:
            self._partial = 0
        self._hold()
        if self.close_sent or not is_partial:
            self._stop_timer()
            return
        now = self.loop.time()
        if self._timer is None:
            self._last = now + self._timing.body
            self._timer = self.loop.call_at(now + self._timing.silence, self._on_time)
        self._deadline = min(now + self._timing.silence, self._last)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_timer()
        self._partial = self._complete = 0
        self._hold()
        super().connection_lost(exc)

    def hold_by(self, held: HeldBody) -> None:
        """Count incoming bytes in `held` until the app receives them."""
        self._held = held

    async def receive(self) -> Any:  # noqa: ANN401 - uvicorn's, passed on
        """Return the next event."""
        event = await super().receive()
        if self.queue.empty():
            self._complete = 0
            self._hold()
        return event

    def send_receive_event_to_app(self) -> None:
        """Pass a complete message to the app."""
        self._complete, self._partial = self._complete + self._partial, 0
        super().send_receive_event_to_app()
        self._allow_next()

    def handle_cont(self, event: Frame) -> None:
        """Keep a further frame of a message, unless the message has too many."""
        if self.close_sent:
            return
        if len(self.frames) >= MOST_FRAMES:
            self._fail(CloseCode.MESSAGE_TOO_BIG, _TOO_MANY_FRAMES)
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping; if the client reads nothing, only the newest ping is answered, later."""
        self._allow_next()
        if self.writable.is_set():
            super().handle_ping()
        elif unsent := self.conn.data_to_send():
            self._pong = unsent[-1:]

    def handle_pong(self, event: Frame) -> None:
        """Take a pong."""
        self._allow_next()
        super().handle_pong(event)

    def resume_writing(self) -> None:
        """Resume writing."""
        super().resume_writing()
        pong, self._pong = self._pong, []
        if pong and not self.transport.is_closing():
            self.transport.write(b"".join(pong))

    def _allow_next(self) -> None:
        """Count the time of what comes next from now on, unless a message is incomplete."""
        if not self.frames:
            self._last = self.loop.time() + self._timing.body

    def _hold(self) -> None:
        """Update the held size; above a limit, close the connection if a message is incomplete."""
        if self._held is not None:
            try:
                self._held.resize(self._partial + self._complete)
            except (TooManyBytes, TooManyBytesOfOwner) as many:
                if self._partial:
                    self._fail(CloseCode.TRY_AGAIN_LATER, str(many))

    def _on_time(self) -> None:
        """Refuse a message that is not complete in time, unless the server delays it."""
        now = self.loop.time()
        if self.read_paused:
            self._deadline = now + self._timing.silence
            self._last = self._last + self._timing.silence
        if self._deadline > now:
            self._timer = self.loop.call_at(self._deadline, self._on_time)
            return
        self._timer = None
        self._fail(CloseCode.POLICY_VIOLATION, _INCOMPLETE)

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close the connection with a code and a reason."""
        if not self.close_sent and not self.transport.is_closing():
            self.conn.fail(code, reason)
            self.handle_parser_exception()
            abort_later(self.transport, self.loop, self._timing)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def run_asgi(self) -> None:
        """Run the application."""
        extensions = cast("dict[str, Any]", self.scope["extensions"])
        extensions[EXTENSION] = Backlog(self.transport, self.writable.wait)
        extensions[HOLD_BY] = self.hold_by
        await super().run_asgi()
