"""What an open stream keeps in memory."""

import asyncio
import gc
import weakref

import pytest
from starlette.types import Message

from headrace.model import json_text
from headrace_gateway.server.long_responses import DISCONNECTS, ConnectionDisconnects, DeferringApp
from headrace_gateway.server.open_requests import OpenRequests
from tests.support.memory_gateway import memory_gateway
from tests.support.waiting import TIMEOUT

MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": MESSAGE}
HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]


class RequestHeaders(list[tuple[bytes, bytes]]):
    """A request's headers, which can be referred to weakly."""


@pytest.mark.parametrize(
    ("path", "body"), [("", CALL), ("/message:stream", MESSAGE)], ids=["JSON-RPC", "REST"]
)
async def test_a_stream_keeps_nothing_of_its_request_once_it_has_begun(
    path: str, body: dict[str, object]
) -> None:
    has_begun, connection = asyncio.Event(), ConnectionDisconnects(lambda: None)

    async def receive() -> Message:
        return {"type": "http.request", "body": json_text.encode(body)}

    async def send(message: Message) -> None:
        if message.get("body"):
            has_begun.set()

    scope = {
        "type": "http",
        "scheme": "http",
        "method": "POST",
        "path": f"/v1/agents/echo{path}",
        "query_string": b"",
        "headers": RequestHeaders(HEADERS),
        "extensions": {DISCONNECTS: connection},
    }
    headers, requests = weakref.ref(scope["headers"]), OpenRequests()
    async with memory_gateway(requests) as app:
        serving = asyncio.create_task(DeferringApp(requests, app)(scope, receive, send))
        await asyncio.wait_for(has_begun.wait(), TIMEOUT)
        scope.clear()  # As the HTTP server does.
        gc.collect()
        assert not serving.done()
        assert headers() is None
        connection.end()
        await serving
