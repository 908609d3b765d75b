"""A TCP proxy that can cut connections, refuse them or withhold data."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from tests.support.tcp_proxy import TcpProxy


class CuttingProxy(TcpProxy):
    """Listens on loopback and passes on to one port of this machine."""

    def __init__(self, target: int) -> None:
        """Pass on to port `target`."""
        super().__init__(target)
        self.refuses = False
        """Whether new connections end at once."""
        self.withholds = b""
        """Whoever has said this hears nothing more on its connection; what it says is passed on."""
        self.taken = 0
        """Connections so far."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"http://127.0.0.1:{self.port}"

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        if self.refuses:
            return
        there, back = await self._connect()
        try:
            async with asyncio.TaskGroup() as both:
                may_answer = _Leave()
                both.create_task(self._pump(reader, back, may_answer, request=True))
                both.create_task(self._pump(there, writer, may_answer))
        finally:
            back.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        leave: "_Leave",
        *,
        request: bool = False,
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                if request and self.withholds and self.withholds in chunk:
                    leave.to_answer = False
                if request or leave.to_answer:
                    writer.write(chunk)
                    await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()


@dataclass
class _Leave:
    """Of one connection."""

    to_answer: bool = True
