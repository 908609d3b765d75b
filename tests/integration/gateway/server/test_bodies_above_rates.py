"""Large requests of a caller that has reached its rate: refused unread, as its protocol does."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio

from headrace_gateway.json_errors import json_object
from headrace_gateway.protocols.agui import run_socket
from headrace_gateway.server.auth.access import RateBucket
from headrace_gateway.server.body import SMALL
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.timing import GatewayTiming
from tests.support.clients.bindings import message
from tests.support.clients.websocket import connect, socket_to
from tests.support.waiting import TIMEOUT

type Json = dict[str, Any]

AGENT = "/v1/agents/assistant"
SHORT = 1.5
"""Seconds that a gateway waits for more of a request."""

LARGE = 9_000_000
"""Bytes of a body that is allowed."""


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"owner_requests_per_minute": 1}


@pytest.fixture(scope="module")
def timing() -> GatewayTiming:
    return GatewayTiming(silence=SHORT, body=2 * SHORT, rpc_message=10 * TIMEOUT)


@pytest_asyncio.fixture(loop_scope="module")
async def limited(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the gateway, whose clients may send nothing more."""
    monkeypatch.setattr(RateBucket, "fill", lambda *_: None)  # No time brings another request.
    await http.get(f"{AGENT}/tasks")
    assert (await http.get(f"{AGENT}/tasks")).status_code == 429
    return str(http.base_url)


class Wire:
    """A connection on which a request is sent in parts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def begin(self, path: str, framing: str = f"Content-Length: {LARGE}") -> None:
        """Send the head of a request."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}A2A-Version: 1.0\r\n{framing}\r\n\r\n".encode())

    async def refusal(self) -> Json:
        """Return the body of the answer, a 429 with a time to come back."""
        async with asyncio.timeout(TIMEOUT):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().splitlines()
            assert " 429 " in lines[0]
            headers = dict(line.split(": ", 1) for line in lines[1:] if line)
            assert 1 <= int(headers["retry-after"]) <= 120
            content: Json = json.loads(
                await self.reader.readexactly(int(headers["content-length"]))
            )
            return content


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


RPC_PATHS = ["/", AGENT, "/rpc", f"{AGENT}/rpc"]
CODES = {
    f"{AGENT}/stream": 429,
    "/copilotkit": "rate_limited",
    "/copilotkit/agent/assistant/stop/t": "rate_limited",
}
"""Codes of the errors on other paths, whose bodies name their operation, too."""


@pytest.mark.parametrize("path", RPC_PATHS)
async def test_a_large_call_is_refused_without_its_body(limited: str, path: str) -> None:
    async with wire_to(limited) as wire:
        wire.begin(path)
        refusal = await wire.refusal()
    assert (refusal["jsonrpc"], refusal["id"], refusal["error"]["code"]) == ("2.0", None, -32603)
    assert "RATE_LIMITED" in json.dumps(refusal["error"]["data"])


@pytest.mark.parametrize(("path", "code"), CODES.items())
async def test_a_large_request_is_refused_without_its_body_on_other_paths(
    limited: str, path: str, code: object
) -> None:
    async with wire_to(limited) as wire:
        wire.begin(path)
        assert (await wire.refusal())["error"]["code"] == code


async def test_a_body_of_unknown_size_is_refused_when_it_has_become_large(limited: str) -> None:
    async with wire_to(limited) as wire:
        wire.begin(AGENT, "Transfer-Encoding: chunked")
        wire.writer.write(f"{LARGE:x}\r\n".encode() + b" " * (SMALL + 1))
        assert (await wire.refusal())["id"] is None


async def test_a_refused_body_that_trickles_does_not_hold_its_connection(limited: str) -> None:
    async with wire_to(limited) as wire:
        wire.begin(AGENT)
        await wire.refusal()

        async def trickle() -> None:
            while True:
                wire.writer.write(b" ")
                await asyncio.sleep(SHORT / 10)

        trickling = asyncio.create_task(trickle())
        async with asyncio.timeout(TIMEOUT):
            with suppress(ConnectionError):
                assert await wire.reader.read() == b""  # The gateway has hung up.
        trickling.cancel()


async def test_a_client_that_sends_all_of_it_reads_the_answer_and_goes_on(
    limited: str, http: httpx.AsyncClient
) -> None:
    assert limited
    for _ in range(2):
        call = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message("x" * LARGE)}
        answer = await http.post(AGENT, json=call)
        assert (answer.status_code, answer.json()["id"]) == (429, None)


async def test_small_calls_are_answered_with_their_ids_and_cards_are_read(
    limited: str, http: httpx.AsyncClient
) -> None:
    assert limited
    padding = " " * (SMALL - 1_000)
    call: Json = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": message(padding)}
    answer = await http.post(AGENT, json=call)
    assert (answer.status_code, answer.json()["id"]) == (429, 7)
    call |= {"method": "GetAgentCard", "params": {"padding": padding}}
    answer = await http.post(f"{AGENT}/rpc", json=call)
    assert answer.json()["result"]["agent"]["name"] == "assistant"
    call["params"] = {"padding": padding * 2}
    assert (await http.post(f"{AGENT}/rpc", json=call)).status_code == 429


@pytest.mark.parametrize("service", ["lf.a2a.v1", "a2a.v1"])
@pytest.mark.parametrize("metadata", [(("agent-name", "assistant"),), ()])
async def test_an_rpc_is_refused_without_its_message(
    limited: str, settings: GatewaySettings, service: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    assert limited

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with grpc.aio.insecure_channel(f"127.0.0.1:{settings.grpc_port}") as channel:
        method: grpc.aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(
            f"/{service}.A2AService/SendMessage"
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await method(never(), metadata=metadata, timeout=TIMEOUT)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    trailing = dict(refused.value.trailing_metadata() or ())
    assert 1 <= int(trailing["retry-after"]) <= 120


async def test_a_large_frame_is_refused_before_it_is_parsed(
    limited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with socket_to(limited, f"{AGENT}/stream") as socket:
        await socket.send({"id": 1, "send": message("hello")})
        assert (await socket.next(1))["error"]["code"] == 429
        await socket.send({"id": 1, "send": message("x" * SMALL)})
        assert (await socket.next(None))["error"]["code"] == 429
    parsed = list[int]()

    def parse(body: bytes) -> Json:
        parsed.append(len(body))
        return json_object(body)

    monkeypatch.setattr(run_socket, "json_object", parse)
    url = f"{limited.replace('http', 'ws')}{AGENT}/ag-ui/ws"
    async with connect(url) as runs:
        for frame in ("{}", json.dumps({"padding": "x" * SMALL})):
            await runs.send(frame)
            refusal = json.loads(await asyncio.wait_for(runs.recv(), TIMEOUT))
            assert (refusal["type"], refusal["code"]) == ("RUN_ERROR", "rate_limited")
    assert parsed == [2]
