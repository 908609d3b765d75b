"""A request of each protocol and binding is counted and timed once, under its own labels."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import grpc.aio
import httpx
import pytest
from prometheus_client import REGISTRY

from headrace.model.events import Json
from headrace_gateway.settings import GatewaySettings
from tests.support.agui.runs import path, run_input
from tests.support.clients.bindings import message
from tests.support.clients.grpc_binding import Grpc
from tests.support.clients.websocket import connect, socket_to
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

BASE = "/v1/agents/assistant"
UNKNOWN = f"0-{'0' * 32}"


@pytest.fixture(scope="module")
def client_headers() -> dict[str, str]:
    return {}


@dataclass
class Client:
    http: httpx.AsyncClient
    grpc_port: int

    @property
    def url(self) -> str:
        return str(self.http.base_url).removesuffix("/")

    async def post(self, where: str, body: Json) -> bool:
        """Return whether all of a response has come, and it says nothing of an error."""
        answer = await self.http.post(where, json=body)
        return answer.is_success and "error" not in answer.text


def sent(*, good: bool) -> Json:
    return message("hello", **({} if good else {"taskId": UNKNOWN}))


def call(method: str, *, good: bool) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent(good=good)}


def run(*, good: bool) -> Json:
    return run_input() if good else {"messages": "none"}


async def rest(client: Client, *, good: bool) -> bool:
    return await client.post(f"{BASE}/message:send", sent(good=good))


async def rest_stream(client: Client, *, good: bool) -> bool:
    return await client.post(f"{BASE}/message:stream", sent(good=good))


async def rpc(client: Client, *, good: bool) -> bool:
    return await client.post(BASE, call("SendMessage", good=good))


async def rpc_stream(client: Client, *, good: bool) -> bool:
    return await client.post(BASE, call("SendStreamingMessage", good=good))


async def over_grpc(client: Client, *, good: bool) -> bool:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{client.grpc_port}") as channel:
        talk = Grpc(client.http, "assistant", channel)
        if good:
            return bool(await talk.call("SendMessage", sent(good=True)))
        return not await talk.refused("SendMessage", sent(good=False))


async def over_websocket(client: Client, *, good: bool) -> bool:
    async with socket_to(client.url, f"{BASE}/stream") as socket:
        await socket.send({"id": 1, "send": sent(good=good)})
        return "error" not in (await socket.rest(1))[-1]


async def agui(client: Client, *, good: bool) -> bool:
    return await client.post(path("assistant"), run(good=good))


async def agui_over_websocket(client: Client, *, good: bool) -> bool:
    target = client.url.replace("http://", "ws://") + f"{path('assistant')}/ws"
    async with connect(target) as socket:
        await socket.send(json.dumps(run(good=good)))
        while True:
            kind = json.loads(await asyncio.wait_for(socket.recv(), 60))["type"]
            if kind in {"RUN_FINISHED", "RUN_ERROR"}:
                return bool(kind == "RUN_FINISHED")


async def hector(client: Client, *, good: bool) -> bool:
    return await client.post(f"{BASE}/stream", sent(good=good))


async def hector_rpc(client: Client, *, good: bool) -> bool:
    return await client.post(f"{BASE}/rpc", call("SendMessage", good=good))


async def copilotkit(client: Client, *, good: bool) -> bool:
    return await client.post("/copilotkit/agent/assistant/run", run(good=good))


async def fleet_api(client: Client, *, good: bool) -> bool:
    name = "assistant" if good else "a" * 200
    answer = await client.http.get(f"/v1/fleet/agents/{name}/versions")
    return answer.is_success


STREAM = "SendStreamingMessage"
ASKED: dict[tuple[str, str, str], Callable[..., Awaitable[bool]]] = {
    ("a2a", "http", "SendMessage"): rest,
    ("a2a", "http", STREAM): rest_stream,
    ("a2a", "jsonrpc", "SendMessage"): rpc,
    ("a2a", "jsonrpc", STREAM): rpc_stream,
    ("a2a", "grpc", "SendMessage"): over_grpc,
    ("a2a", "websocket", STREAM): over_websocket,
    ("ag-ui", "http", STREAM): agui,
    ("ag-ui", "websocket", STREAM): agui_over_websocket,
    ("hector", "http", STREAM): hector,
    ("hector", "jsonrpc", "SendMessage"): hector_rpc,
    ("copilotkit", "http", STREAM): copilotkit,
    ("fleet", "http", "GetAgentVersions"): fleet_api,
}


REFUSED_FRAMES = {
    "no JSON": "nonsense",
    "no request": {"id": 1},
    "no id": {"cancel": {"task": "x"}},
    "a malformed member": {"id": 1, "cancel": {"task": 5}},
    "an unknown method": {"jsonrpc": "2.0", "id": 1, "method": "NoMethod"},
}


LABELS = ("protocol", "binding", "operation", "outcome")


def counted() -> dict[tuple[str, ...], float]:
    """Return this process's requests, and with the outcome ``timed`` the timed ones."""
    return {
        tuple(sample.labels.get(name, "timed") for name in LABELS): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name in {"headrace_requests_total", "headrace_request_seconds_count"}
    }


async def counted_since(before: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    """Return how many were counted since `before`, once one is: a response may come earlier."""

    async def new() -> dict[tuple[str, ...], float]:
        found = {key: now - before.get(key, 0.0) for key, now in counted().items()}
        return {key: number for key, number in found.items() if number}

    return await eventually(new, "a request is counted")


@pytest.mark.parametrize("outcome", ["ok", "refused"])
@pytest.mark.parametrize("labels", ASKED, ids="-".join)
async def test_a_request_is_counted_and_timed_under_its_own_labels(
    http: httpx.AsyncClient,
    settings: GatewaySettings,
    fleet: ScriptedFleet,
    labels: tuple[str, str, str],
    outcome: str,
) -> None:
    assert fleet.working
    before, good = counted(), outcome == "ok"
    assert await ASKED[labels](Client(http, settings.grpc_port), good=good) == good
    found = await counted_since(before)
    assert found == {(*labels, outcome): 1.0, (*labels, "timed"): 1.0}


async def test_a_message_over_rest_that_is_no_json_is_counted_as_one(
    http: httpx.AsyncClient,
) -> None:
    before = counted()
    answer = await http.post(f"{BASE}/message:send", content=b"nonsense")
    assert answer.status_code == 400
    labels = ("a2a", "http", "SendMessage")
    assert await counted_since(before) == {(*labels, "refused"): 1.0, (*labels, "timed"): 1.0}


REFUSED_UNNAMED = {
    ("a2a", "websocket", "none", "refused"): 1.0,
    ("a2a", "websocket", "none", "timed"): 1.0,
}


@pytest.mark.parametrize("frame", REFUSED_FRAMES.values(), ids=REFUSED_FRAMES)
async def test_a_frame_that_is_refused_before_its_operation_is_known_is_counted(
    gateway: str, frame: object
) -> None:
    before = counted()
    async with socket_to(gateway, f"{BASE}/stream") as socket:
        await socket.send(frame)
        named = frame.get("id") if isinstance(frame, dict) else None
        assert "error" in await socket.next(named)
    assert await counted_since(before) == REFUSED_UNNAMED


async def test_a_websocket_that_is_refused_is_counted(gateway: str) -> None:
    before = counted()
    async with socket_to(gateway, "/v1/agents/nobody/stream") as socket:
        assert await socket.closed() == (1008, "agent 'nobody' does not exist")
    assert await counted_since(before) == REFUSED_UNNAMED
