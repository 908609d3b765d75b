"""A webhook receiver with scripted responses that records notifications."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import TIMEOUT

type Json = dict[str, Any]

STALL = -1
"""Instead of a status: take the request and never answer."""
HANG_UP = -2
"""Instead of a status: close without an answer."""


@dataclass(frozen=True)
class Notification:
    """One request that came."""

    path: str
    headers: dict[str, str]
    """By lower-case name."""
    raw: bytes
    answered: int

    @property
    def body(self) -> Json:
        found: Json = json.loads(self.raw)
        return found

    @property
    def id(self) -> str:
        return self.headers["x-a2a-notification-id"]

    @property
    def generation(self) -> int:
        (update,) = self.body.values()
        generation: int = update["metadata"]["headrace.generation"]
        return generation


@dataclass
class Receiver:
    """Listens on loopback."""

    port: int = 0
    came: list[Notification] = field(default_factory=list)
    connections: int = 0
    """How many were made."""
    plan: dict[str, list[int]] = field(default_factory=dict)
    """Answers in turn by path, the last one again and again; other paths are answered 200."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every answer."""
    answer_body: Callable[[], bytes] = bytes
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        """Return the URL of `path`."""
        return f"http://{host}:{self.port}{path}"

    def on(self, path: str) -> list[Notification]:
        """Return what came to `path`."""
        return [one for one in self.came if one.path == path]

    def taken(self, path: str = "/hook") -> list[Notification]:
        """Return what came to `path` and was answered 200."""
        return [one for one in self.on(path) if one.answered == 200]

    async def until(self, holds: Callable[[], object], what: str, timeout: float = TIMEOUT) -> None:
        """Return as soon as `holds()`, which is looked at whenever something comes."""
        try:
            async with asyncio.timeout(timeout):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"still not: {what}; {len(self.came)} came") from None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path = first.split(" ")[1]
        answers = self.plan.get(path, [200])
        status = answers.pop(0) if len(answers) > 1 else answers[0]
        self.came.append(Notification(path, headers, raw, status))
        self._news.set()
        if status == STALL:
            await asyncio.Event().wait()
        if status == HANG_UP:
            return False
        body = self.answer_body()
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        length = f"Content-Length: {len(body)}\r\n"
        writer.write(f"HTTP/1.1 {status} So\r\n{length}{more}\r\n".encode() + body)
        await writer.drain()
        return True

    def hang_up(self) -> None:
        """Drop every connection."""
        for task in self._open:
            task.cancel()


@asynccontextmanager
async def receiving(
    port: int = 0, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """Yield a receiver that listens for the length of a block."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        receiver.hang_up()
