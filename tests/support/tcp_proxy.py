"""Base of the tests' TCP proxies: listen on loopback, serve connections, end them."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Self


class TcpProxy(ABC):
    """Listens while it is entered; how it passes on is each proxy's own."""

    def __init__(self, target: int) -> None:
        """Pass on to port `target` of this machine."""
        self._target = target
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

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
        with suppress(OSError, asyncio.CancelledError):
            await self._pass_on(reader, writer)
        writer.transport.abort()

    @abstractmethod
    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on between one client and the target until either is gone."""

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._target)
