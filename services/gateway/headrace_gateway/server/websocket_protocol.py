"""WebSocket connections: limits on incomplete messages, and the backlog of unread bytes."""

import logging
from collections.abc import Generator
from typing import Any, cast, override

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import Protocol
from websockets.server import ServerProtocol

from headrace_gateway.refusals import TooManyBytes, TooManyBytesOfOwner
from headrace_gateway.server.body import HeldBody
from headrace_gateway.server.client_pace import EXTENSION, Awaited, Backlog, ReceiveTime
from headrace_gateway.server.http_protocol import HOLD_BY, refusal

MOST_FRAMES = 16 * 1024
"""Maximum frames of one WebSocket message; empty frames count, because they use memory too."""

_INCOMPLETE = "the message was not received within the time limit"

_NOT_OPENED = "the WebSocket was not opened within the time limit; try again"

_TOO_MANY_FRAMES = f"the message has more than {MOST_FRAMES} frames"


class _ServerFraming(ServerProtocol):
    """A WebSocket whose handshake has been parsed: what arrives are frames."""

    @override
    def parse(self) -> Generator[None]:
        return Protocol.parse(self)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's protocol for WebSockets, with its backlog in the scope.

    Uvicorn itself would store an incomplete message forever, in any number of frames. It would also
    answer pings whether or not the client reads the answers.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's, passed on
        """Pass the arguments to uvicorn."""
        super().__init__(*arguments, **named)
        self.conn = _ServerFraming(
            max_size=self.config.ws_max_size, logger=logging.getLogger("uvicorn.error")
        )
        self._time: ReceiveTime
        self._pong: list[bytes] = []
        """The answer to the newest ping, while the client reads nothing."""
        self._held: HeldBody | None = None
        self._partial = self._complete = 0
        """Bytes of the incomplete message, and of complete messages not yet received by the app."""

    def open(self, time: ReceiveTime, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer the handshake, and take over the connection's `time`.

        Until it is answered nothing else counts: the library may make nothing of it.
        """
        self._time, time.of = time, self
        time.expect(Awaited.HANDSHAKE)
        time.watch()
        # Encoded as by the library, which uvicorn expects.
        named = [(name.decode(), _text(value)) for name, value in headers]
        self.handle_connect(Request(_text(target), Headers(named)))

    def start_keepalive(self) -> None:
        """Begin to serve an open WebSocket: the handshake has been answered."""
        self._time.stop()
        self._watch_time()
        super().start_keepalive()

    def data_received(self, data: bytes) -> None:
        """Parse `data`, and start or stop the time for the rest of a message."""
        self._partial += len(data)
        super().data_received(data)
        if not self._is_partial():
            self._partial = 0
        self._hold()
        if self._time.awaited is not Awaited.HANDSHAKE:
            self._watch_time()

    def _is_partial(self) -> bool:
        return bool(self.frames or self.conn.reader.buffer)

    def _watch_time(self) -> None:
        time = self._time
        if self.close_sent or not self._is_partial():
            time.stop()
        elif time.awaited is Awaited.MESSAGE:
            time.arrived()
        else:
            time.expect(Awaited.MESSAGE)
            time.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._time.stop()
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
            self._time.begin_again()

    def _hold(self) -> None:
        """Update the held size; above a limit, close the connection if a message is incomplete."""
        if self._held is not None:
            try:
                self._held.resize(self._partial + self._complete)
            except (TooManyBytes, TooManyBytesOfOwner) as many:
                if self._partial:
                    self._fail(CloseCode.TRY_AGAIN_LATER, str(many))

    def delays_client(self) -> bool:
        """Return whether the server itself delays what is awaited."""
        return self.read_paused and self._time.awaited is Awaited.MESSAGE

    def refuse_late(self, awaited: Awaited) -> None:
        """Refuse a message that is late, or a handshake that nobody has answered."""
        if awaited is Awaited.MESSAGE:
            self._fail(CloseCode.POLICY_VIOLATION, _INCOMPLETE)
        elif not self.transport.is_closing():
            self.transport.write(refusal(503, "UNAVAILABLE", _NOT_OPENED))

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close the connection with a code and a reason."""
        if not self.close_sent and not self.transport.is_closing():
            self.conn.fail(code, reason)
            self.handle_parser_exception()
            self._time.close_by_force()

    async def run_asgi(self) -> None:
        """Run the application."""
        extensions = cast("dict[str, Any]", self.scope["extensions"])
        extensions[EXTENSION] = Backlog(self.transport, self.writable.wait)
        extensions[HOLD_BY] = self.hold_by
        try:
            await super().run_asgi()
        finally:
            self._time.close_by_force()


def _text(value: bytes) -> str:
    return value.decode("ascii", "surrogateescape")
