"""A TCP proxy between a client and nats-server that can lose, delay and cut."""

import asyncio
import re
from collections.abc import Callable, Iterator

from tests.support.tcp_proxy import TcpProxy

_MESSAGE = re.compile(rb"H?MSG (?P<subject>\S+) .*?(?P<size>\d+)\r\n")

type Frame = bytes
"""One message as the server sends it: its line ``MSG …`` or ``HMSG …``, headers and payload."""


class NatsProxy(TcpProxy):
    """Listens on loopback and passes on to one nats-server whatever a test lets through."""

    def __init__(self, target: int) -> None:
        """Pass on to the server on port `target`."""
        super().__init__(target)
        self.loses: Callable[[Frame], bool] = lambda _: False
        """Asked for each message on its way to the client; True: it never arrives."""
        self.lost: list[Frame] = []
        self._loss = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def lose_next(self, matches: Callable[[Frame], bool]) -> None:
        """Lose the next message that `matches`, and no other."""
        self.loses = lambda frame: not self.lost and matches(frame)

    async def until_lost(self) -> None:
        """Wait for the next loss."""
        self._loss.clear()
        await self._loss.wait()

    def hold(self) -> None:
        """Keep back what clients send, until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Pass on what was kept back, and all that follows."""
        self._open.set()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._connect()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._up(reader, to_server))
                both.create_task(self._down(from_server, writer))
        except* OSError:
            pass
        finally:
            to_server.transport.abort()

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = bytearray()
        while data := await reader.read(65536):
            buffer += data
            for frame in _frames(buffer):
                if _MESSAGE.match(frame) and self.loses(frame):
                    self.lost.append(frame)
                    self._loss.set()
                else:
                    writer.write(frame)
            await writer.drain()
        raise ConnectionResetError


def _frames(buffer: bytearray) -> Iterator[Frame]:
    """Take whole frames off the front of `buffer`."""
    while (end := buffer.find(b"\r\n")) >= 0:
        size = end + 2
        if message := _MESSAGE.match(buffer):
            size += int(message["size"]) + 2
        if len(buffer) < size:
            return
        yield bytes(buffer[:size])
        del buffer[:size]
