"""What a submission costs its gateway, in numbers that are the same in every run.

See `tests/unit/worker/test_append_costs.py` for what a token costs its worker.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import nats
import orjson
import prometheus_client
import pytest
import starlette
from starlette.types import ASGIApp, Message

import headrace
import headrace_gateway
from headrace_gateway.server.deferred_response import DeferringApp
from headrace_gateway.server.open_requests import OpenRequests
from tests.support.call_counter import CallCounter
from tests.support.memory_gateway import memory_gateway

RUNS = 20

CALLS = 510
"""Python functions called per submission, from its request to its first event; it was 497."""


@pytest.fixture
async def gateway() -> AsyncIterator[ASGIApp]:
    requests = OpenRequests()
    async with memory_gateway(requests) as app:
        yield DeferringApp(requests, app)


async def submit(gateway: ASGIApp, path: str = "/v1/agents/echo") -> bytes:
    """Begin a task; return what a client gets that disconnects after the first event."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
    body = orjson.dumps(call | {"params": {"message": message}})
    headers = [
        (b"host", b"127.0.0.1:8080"),
        (b"a2a-version", b"1.0"),
        (b"accept", b"text/event-stream"),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    scope = {
        "type": "http",
        "scheme": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": headers,
    }
    came, sent, has_event = [body], list[bytes](), asyncio.Event()

    async def receive() -> Message:
        if came:
            return {"type": "http.request", "body": came.pop()}
        await has_event.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if sent[-1]:
            has_event.set()

    await gateway(scope, receive, send)
    return b"".join(sent)


async def test_a_submission_takes_few_calls(gateway: ASGIApp) -> None:
    await submit(gateway)
    counter = CallCounter((headrace, headrace_gateway, nats, prometheus_client, starlette))
    sys.setprofile(counter)
    try:
        answers = [await submit(gateway) for _ in range(RUNS)]
    finally:
        sys.setprofile(None)
    assert sum(b"TASK_STATE_SUBMITTED" in answer for answer in answers) == RUNS
    assert counter.calls / RUNS <= CALLS
