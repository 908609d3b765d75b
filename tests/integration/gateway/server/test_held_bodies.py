"""How many bytes of requests a gateway holds: in all, per owner, over every protocol."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import grpc.aio
import httpx
import pytest

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import connect, socket_to
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

LARGEST = 100_000
"""Bytes of a body; three may be held."""

PART = 99_000
LIMITS = [
    ("max_held_bytes", 503, "too_many_bytes"),
    ("max_held_bytes_per_owner", 429, "too_many_bytes_of_owner"),
]
AT_WORK = message("x" * PART)
SMALL = 5_000
"""Bytes that come in one piece, and are too many beside three parts."""


def agui_input() -> Json:
    output = {"id": "m", "role": "user", "content": "x" * SMALL}
    run: Json = {"threadId": str(uuid.uuid4()), "runId": "r", "messages": [output], "tools": []}
    return run | {"state": {}, "context": [], "forwardedProps": {}}


type Half = Callable[[str, AsyncExitStack], Awaitable[None]]


@asynccontextmanager
async def limited(settings: GatewaySettings, limit: str) -> AsyncIterator[tuple[str, list[Talk]]]:
    """Yield a gateway that holds three bodies, and how to talk to its agent over each binding."""
    taken = {"http_port": ports.pick(), "grpc_port": ports.pick()}
    sizes = {"max_body_bytes": LARGEST, limit: 3 * LARGEST}
    changed = settings.model_copy(update=taken | sizes)
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
        grpc.aio.insecure_channel(f"127.0.0.1:{changed.grpc_port}") as channel,
    ):
        yield url, [Rest(http, "patient"), Rpc(http, "patient"), Grpc(http, "patient", channel)]


async def half_a_body(url: str, stack: AsyncExitStack) -> None:
    """Send most of a body, and leave it so."""
    place = urlsplit(url)
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    stack.callback(writer.close)
    head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {LARGEST}\r\n\r\n"
    writer.write(f"POST /v1/agents/patient/message:send HTTP/1.1\r\n{head}".encode() + b" " * PART)


async def half_a_frame(url: str, stack: AsyncExitStack) -> None:
    """Send most of a WebSocket's message, and leave it so."""
    target = url.replace("http://", "ws://") + "/v1/agents/patient/stream"
    connection = await stack.enter_async_context(connect(target))

    async def pieces() -> AsyncIterator[str]:
        yield " " * PART
        await asyncio.Event().wait()

    sending = asyncio.create_task(connection.send(pieces()))
    stack.callback(sending.cancel)


async def takes_no_more(talk: Talk) -> bool:
    async with talk.open("SendStreamingMessage", message("x" * SMALL), {}) as response:
        return not response.is_success


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("half", [half_a_body, half_a_frame])
async def test_bodies_that_are_not_whole_count_and_more_are_refused_on_every_protocol(
    settings: GatewaySettings, fleet: ScriptedFleet, limit: tuple[str, int, str], half: Half
) -> None:
    setting, status, code = limit
    async with limited(settings, setting) as (url, talks), AsyncExitStack() as stack:
        for _ in range(3):
            await half(url, stack)
        await eventually(lambda: takes_no_more(talks[0]), "three bodies are held")
        begun = len(fleet.runs)
        assert len(talks) > 1
        for talk in talks:
            refusal = await talk.refused("SendMessage", AT_WORK)
            reason = "UNAVAILABLE" if status == 503 else "TOO_MANY_BYTES"
            assert (refusal.status, refusal.reason) == (status, reason)
            assert int(refusal.headers["retry-after"]) > 0
        answer = await talks[0].http.post("/v1/agents/patient/ag-ui", json=agui_input())
        assert answer.status_code == status
        assert answer.json()["error"]["code"] == code
        async with socket_to(url, "/v1/agents/patient/stream") as socket:
            await socket.send({"id": 1, "send": message("x" * SMALL)})
            assert (await socket.next(1))["error"]["code"] == status
        run_socket = url.replace("http://", "ws://") + "/v1/agents/patient/ag-ui/ws"
        async with connect(run_socket) as run:
            await run.send(json.dumps(agui_input()))
            assert json.loads(await asyncio.wait_for(run.recv(), 60))["code"] == code
        assert len(fleet.runs) == begun
        await stack.aclose()
        await eventually(lambda: takes_one(talks[0]), "what is held no more is free")


async def takes_one(talk: Talk) -> bool:
    return not await takes_no_more(talk)


async def test_a_frame_that_grows_too_large_closes_its_connection(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    async with limited(settings, LIMITS[1][0]) as (url, talks), AsyncExitStack() as stack:
        for _ in range(3):
            await half_a_body(url, stack)
        await eventually(lambda: takes_no_more(talks[0]), "three bodies are held")
        async with socket_to(url, "/v1/agents/patient/stream") as socket:

            async def pieces() -> AsyncIterator[str]:
                yield " " * PART
                await asyncio.Event().wait()

            sending = asyncio.create_task(socket.connection.send(pieces()))
            code, why = await socket.closed()
            sending.cancel()
        assert (code, "bytes" in why) == (1013, True)
    assert fleet.working


async def test_a_stream_that_has_begun_holds_no_body(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    reading = list[AsyncIterator[object]]()  # What is let go of is closed.
    async with limited(settings, LIMITS[1][0]) as (url, talks), AsyncExitStack() as stack:
        for talk in talks * 2:
            stream = await stack.enter_async_context(talk.stream("SendStreamingMessage", AT_WORK))
            reading.append(stream.frames())
            await anext(reading[-1])
        socket = await stack.enter_async_context(socket_to(url, "/v1/agents/patient/stream"))
        for number in range(4):
            await socket.send({"id": number, "send": AT_WORK})
            assert "event" in await socket.next(number)
        await eventually(lambda: asyncio.sleep(0, len(fleet.runs) == 10), "the agent works on all")


@pytest.mark.parametrize("body", ["rpc", "rest"])
async def test_a_body_that_is_passed_on_to_another_binding_is_held_once(
    settings: GatewaySettings, fleet: ScriptedFleet, body: str
) -> None:
    """Hector's ``/stream`` reads a body to see which binding it is for, which reads it again."""
    assert fleet.working
    sent = message("x" * PART)
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": sent}
    taken = {"http_port": ports.pick(), "grpc_port": ports.pick()}
    sizes = {"max_body_bytes": LARGEST, "max_held_bytes_per_owner": LARGEST}
    async with (
        running(settings.model_copy(update=taken | sizes)) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as http,
    ):
        path = "/v1/agents/assistant/stream"
        answer = await http.post(path, json=call if body == "rpc" else sent)
        assert answer.status_code == 200, answer.text
        assert "TASK_STATE_COMPLETED" in answer.text
