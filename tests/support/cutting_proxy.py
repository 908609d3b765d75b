"""A TCP proxy that passes on everything, until it is told to cut, to refuse or to withhold."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Listens on loopback and passes on to one port of this machine."""

    def __init__(self, port: int) -> None:
        """Pass on to `port`."""
        self.refuses = False
        """Whether new connections end at once."""
        self.withholds = b""
        """Whoever has said this hears nothing more on its connection; what it says is passed on."""
        self.taken = 0
        """Connections so far."""
        self._target = port
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def cut(self) -> None:
        """End every connection."""
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self.taken += 1
        with suppress(asyncio.CancelledError, OSError):
            if not self.refuses:
                await self._pass_on(reader, writer)
        writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as both:
                may_answer = _Leave()
                both.create_task(self._pump(reader, back, may_answer, asked=True))
                both.create_task(self._pump(there, writer, may_answer))
        finally:
            back.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        leave: "_Leave",
        *,
        asked: bool = False,
    ) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65536):
                if asked and self.withholds and self.withholds in chunk:
                    leave.to_answer = False
                if asked or leave.to_answer:
                    writer.write(chunk)
                    await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()


@dataclass
class _Leave:
    """Of one connection."""

    to_answer: bool = True
