"""A stream's connection keeps neither its request nor a parser, and still serves what follows."""

import asyncio

from starlette.types import Receive, Scope, Send

from headrace_gateway.server.http_protocol import free_request
from tests.support.http_connection import config_of, connection
from tests.support.waiting import TIMEOUT, soon


class Streams:
    """An application whose responses wait for `end` once their heads are sent."""

    def __init__(self) -> None:
        self.scopes = list[Scope]()
        self.is_freed, self.end = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self.scopes.append(scope)
        body = scope["path"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        free_request(send)
        self.is_freed.set()
        await self.end.wait()
        await send({"type": "http.response.body", "body": body})

    async def freed(self) -> None:
        """Return once the first request may be freed."""
        await asyncio.wait_for(self.is_freed.wait(), TIMEOUT)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n".encode()


async def test_the_request_of_a_stream_is_freed() -> None:
    app = Streams()
    protocol, _ = connection(config_of(app))
    protocol.data_received(get("/first"))
    await app.freed()
    assert protocol.parser is None
    assert (protocol.headers, app.scopes) == ([], [{"method": "GET"}])


async def test_a_request_that_arrives_during_the_stream_is_served_after_it() -> None:
    app = Streams()
    protocol, socket = connection(config_of(app))
    protocol.data_received(get("/first"))
    await app.freed()
    second = get("/second")
    protocol.data_received(second[:20])
    protocol.data_received(second[20:])
    app.end.set()
    await soon(lambda: b"/second" in socket.written, "the second request is served")
    assert socket.written.index(b"/first") < socket.written.index(b"/second")
    protocol.data_received(get("/third"))
    third = b"6\r\n/third\r\n0\r\n\r\n"
    await soon(lambda: socket.written.endswith(third), "the third request is served")
    assert socket.written.count(b"HTTP/1.1 200 OK") == 3


async def test_a_request_that_has_begun_to_arrive_is_kept() -> None:
    app = Streams()
    protocol, socket = connection(config_of(app))
    second = get("/second")
    protocol.data_received(get("/first") + second[:20])
    await app.freed()
    protocol.data_received(second[20:])
    app.end.set()
    await soon(lambda: b"/second" in socket.written, "the second request is served")
    assert socket.written.count(b"HTTP/1.1 200 OK") == 2
