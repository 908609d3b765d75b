"""Follow a task over a WebSocket that the client can cut at any byte."""

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from tests.support.event_stream import Json
from tests.support.resuming_bindings import Ask, NothingLeft, Received, Refused
from tests.support.resuming_wire import ConnectionCut, Wire

_SWITCHING = 101
_RESTARTING = 1012
_TRY_LATER = 1013
_ID = 7


class Socket:
    """A client's end: frames of text in and out."""

    def __init__(self, wire: Wire, url: str) -> None:
        """Speak to `url` over `wire`."""
        self._wire = wire
        self._protocol = ClientProtocol(parse_uri(url))
        self._early: list[Frame | Response] = []

    async def shake_hands(self) -> None:
        """Open the WebSocket.

        Raises:
            ConnectionCut: the connection ended before it was open.
            Refused: the gateway answers with an error.
        """
        self._protocol.send_request(self._protocol.connect())
        await self._flush()
        while not (events := await self._received()):
            pass
        [response, *self._early] = events
        assert isinstance(response, Response)
        if response.status_code != _SWITCHING:
            raise Refused(response.status_code, (response.body or b"").decode())

    async def send(self, frame: Json) -> None:
        """Send one frame; nothing where the gateway closes, which `messages` tells."""
        with suppress(InvalidState):
            self._protocol.send_text(json.dumps(frame).encode())
        await self._flush()

    async def messages(self) -> AsyncIterator[Json | Close]:
        """Yield what comes, to the close frame.

        Raises:
            ConnectionCut: the connection ended without one.
        """
        events = self._early
        while True:
            for event in events:
                assert isinstance(event, Frame)
                if event.opcode is Opcode.TEXT:
                    yield json.loads(bytes(event.data))
                elif event.opcode is Opcode.CLOSE:
                    yield Close.parse(bytes(event.data))
                    return
            events = await self._received()

    async def _received(self) -> list[Frame | Response]:
        data = await self._wire.read()
        if not data:
            raise ConnectionCut("the gateway ended the connection without a close frame")
        self._protocol.receive_data(data)
        await self._flush()
        if (refused := self._protocol.handshake_exc) is not None:
            raise ConnectionCut(str(refused))
        return [e for e in self._protocol.events_received() if isinstance(e, Frame | Response)]

    async def _flush(self) -> None:
        for piece in self._protocol.data_to_send():
            await self._wire.send(piece)


@dataclass(slots=True)
class SocketStream:
    """One task's stream on a socket of its own."""

    socket: Socket
    member: str
    close_reason: str = ""
    recovered: bool = True

    async def events(self) -> AsyncIterator[Received]:
        """Yield events; see `Incoming.events`. NothingLeft is raised where it would be empty."""
        count = itertools.count()
        async for messages in self.socket.messages():
            if isinstance(messages, Close):
                if messages.code == _TRY_LATER:
                    raise Refused(503, messages.reason)
                assert messages.code == _RESTARTING, messages
                self.close_reason = messages.reason
                return
            assert messages["id"] == _ID, messages
            if "error" in messages:
                raise _refusal(messages["error"])
            if messages.get("end"):
                if next(count) == 0:
                    raise NothingLeft
                return
            next(count)
            self.recovered = self.recovered and messages.get("recovered", True)
            yield Received(messages["cursor"], messages[self.member])


def _refusal(error: Json) -> Refused:
    status = error["code"]
    if status < 0:
        # JSON-RPC's own numbers: only what the gateway calls unavailable may be tried again.
        status = 503 if "UNAVAILABLE" in json.dumps(error) else 400
    return Refused(status, json.dumps(error))


class SocketBinding:
    """A protocol over the gateway's WebSocket."""

    def __init__(self, name: str, frame: Callable[[Ask], Json], member: str) -> None:
        """Ask with `frame`; an event is the `member` of a message."""
        self.name, self._frame, self._member = name, frame, member

    def __repr__(self) -> str:
        return self.name

    @asynccontextmanager
    async def opened(self, ask: Ask) -> AsyncIterator[SocketStream]:
        """Open a stream; see `Binding.opened`."""
        wire = await Wire.open(ask.gateway, ask.cut, window=ask.window)
        try:
            place = urlsplit(ask.gateway).netloc
            socket = Socket(wire, f"ws://{place}/v1/agents/{ask.agent}/stream")
            await socket.shake_hands()
            await socket.send(self._frame(ask))
            yield SocketStream(socket, self._member)
        finally:
            wire.close()


def _key(ask: Ask) -> Json:
    return {"idempotencyKey": ask.key} if ask.key and not ask.task else {}


def _plain(ask: Ask) -> Json:
    if not ask.task:
        return {"id": _ID, "send": {"message": ask.message()}} | _key(ask)
    after = {"after": ask.cursor} if ask.cursor else {}
    return {"id": _ID, "subscribe": {"task": ask.task} | after}


def _json_rpc(ask: Ask) -> Json:
    method = "SubscribeToTask" if ask.task else "SendStreamingMessage"
    params = {"id": ask.task} if ask.task else {"message": ask.message()}
    after = {"after": ask.cursor} if ask.cursor else {}
    return {"jsonrpc": "2.0", "id": _ID, "method": method, "params": params} | after | _key(ask)


WEBSOCKET = SocketBinding("WebSocket", _plain, "event")
WEBSOCKET_RPC = SocketBinding("WebSocket JSON-RPC", _json_rpc, "result")
