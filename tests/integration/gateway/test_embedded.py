"""A gateway mounted in another application: the programs of docs/embedding.md, on real servers."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import uvicorn
from starlette.types import ASGIApp

from headrace.client import Client
from headrace.jetstream.client import NatsClient
from headrace_gateway.embedded import EmbeddedGateway
from headrace_gateway.server.listeners import Unprotected
from headrace_gateway.settings import GatewaySettings
from tests.architecture.tree import ROOT
from tests.support.clients.websocket import connect
from tests.support.document import blocks
from tests.support.module_loops import module_fixture
from tests.support.nats_clients import connections
from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

[SHOP] = [block.code for block in blocks(ROOT / "docs" / "embedding.md", "python")]
type Other = tuple[str, uvicorn.Server, asyncio.Task[None]]
"""The URL of a server, the server, and the task in which it serves."""

RPC = "/agents/v1/agents/assistant"


def program(code: str) -> dict[str, Any]:
    """Return the names that a program of the page defines."""
    names: dict[str, Any] = {}
    exec(compile(code, "embedding.md", "exec"), names)  # noqa: S102
    return names


async def serving(app: ASGIApp, port: int) -> tuple[uvicorn.Server, asyncio.Task[None]]:
    """Serve `app` with uvicorn as it is; return when it has started."""
    config = uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    # Without its handlers of signals, which are this process's own.
    task = asyncio.create_task(server._serve())
    while not server.started:  # uvicorn tells nobody
        assert not task.done()
        await asyncio.sleep(0.01)
    return server, task


@module_fixture
async def shop(settings: GatewaySettings, one_fleet: ScriptedFleet) -> AsyncIterator[str]:
    """The URL of the page's application."""
    assert one_fleet.working
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_NATS_URL", settings.nats_url)
        patch.setenv("HEADRACE_PREFIX", settings.prefix)
        patch.setenv("HEADRACE_STREAM_PREFIX", settings.stream_prefix)
        patch.setenv("HEADRACE_ALLOW_ANONYMOUS", "true")
        names = program(SHOP)
    port = ports.pick()
    server, task = await serving(names["app"], port)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await asyncio.wait_for(task, 60)


@pytest_asyncio.fixture(loop_scope="module")
async def http(shop: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that application."""
    headers = {"A2A-Version": "1.0"}
    async with httpx.AsyncClient(
        base_url=shop, timeout=60, verify=NO_TLS, headers=headers
    ) as client:
        yield client


@module_fixture
async def other(settings: GatewaySettings, shop: str) -> AsyncIterator[Other]:
    """A FastAPI application with a gateway of the same fleet, which a test may stop."""
    assert shop
    from fastapi import FastAPI  # noqa: PLC0415  # takes 0.3 s in each process that collects tests

    gateway = EmbeddedGateway(settings.model_copy(update={"allow_anonymous": True}))
    app = FastAPI(lifespan=gateway.lifespan)
    app.mount("/agents", gateway)
    port = ports.pick()
    server, task = await serving(app, port)
    yield f"http://127.0.0.1:{port}", server, task
    server.should_exit = True
    await asyncio.wait_for(task, 60)


@pytest.mark.asyncio(loop_scope="module")
async def test_it_answers_what_it_is_and_leaves_the_level_of_logs_to_its_application(
    http: httpx.AsyncClient,
) -> None:
    before = logging.getLogger().level
    found = (await http.get("/agents/v1/processes")).json()["processes"]
    gateways = [one for one in found if one["service"] == "gateway"]
    assert gateways
    body = {"level": "error", "process": gateways[0]["process"]}
    answer = await http.post("/agents/v1/processes:logLevel", json=body)
    assert [one["process"] for one in answer.json()["processes"]] == [gateways[0]["process"]]
    assert logging.getLogger().level == before


def message(text: str) -> dict[str, Any]:
    """Return the parameters of a message."""
    parts = [{"text": text}]
    return {"message": {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": parts}}


def call(method: str, text: str) -> dict[str, Any]:
    """Return a JSON-RPC request that sends a message."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": message(text)}


@pytest.mark.asyncio(loop_scope="module")
async def test_cards_and_lists_name_urls_under_the_mount(
    http: httpx.AsyncClient, shop: str
) -> None:
    assert (await http.get("/")).text == "shop"
    card = (await http.get(f"{RPC}/.well-known/agent-card.json")).json()
    urls = {one["url"] for one in card["supportedInterfaces"]}
    bindings = {one["protocolBinding"] for one in card["supportedInterfaces"]}
    assert urls == {shop + RPC}
    assert "GRPC" not in bindings
    assert card["signatures"]
    assert (await http.get("/agents/.well-known/jwks.json")).json()["keys"]
    listed = (await http.get("/agents/v1/agents")).json()["agents"]
    echo = next(one for one in listed if one["id"] == "assistant")
    assert (echo["url"], echo["card"]) == (RPC, f"{shop}{RPC}/.well-known/agent-card.json")
    assert (await http.get(echo["card"])).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_every_protocol_over_http_is_served_under_the_mount(
    http: httpx.AsyncClient, shop: str
) -> None:
    rpc = (await http.post(RPC, json=call("SendMessage", "rpc"))).json()
    rest = (await http.post(f"{RPC}/message:send", json=message("rest"))).json()
    streamed = await http.post(RPC, json=call("SendStreamingMessage", "sse"))
    run = {
        "threadId": "t",
        "runId": "r",
        "state": {},
        "messages": [{"id": "1", "role": "user", "content": "agui"}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    agui = await http.post(f"{RPC}/ag-ui", json=run)
    url = f"{shop}{RPC}/stream".replace("http", "ws", 1)
    async with connect(url, proxy=None) as socket:
        await socket.send(json.dumps(call("SendStreamingMessage", "socket")))
        frames = [await asyncio.wait_for(socket.recv(), 60)]
        while "COMPLETED" not in str(frames[-1]):
            frames.append(await asyncio.wait_for(socket.recv(), 60))
    assert rpc["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "rpc"
    assert rest["task"]["artifacts"][0]["parts"][0]["text"] == "rest"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert "TASK_STATE_COMPLETED" in streamed.text
    assert "RUN_FINISHED" in agui.text
    assert len(frames) > 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_stream_that_the_stopping_server_cuts_goes_on_at_another_gateway(
    shop: str, other: Other, fleet: ScriptedFleet
) -> None:
    url, server, task = other
    async with Client(f"{url}/agents", f"{shop}/agents") as client:
        stream = client.stream("patient", "wait")
        texts = list[str]()
        async for event in stream:
            texts.append(event.text)
            if event.text == "a":
                server.should_exit = True
                await asyncio.wait_for(asyncio.shield(task), 60)
                fleet.runs[-1].go_on.set()
    assert ("".join(texts), stream.state) == ("ab", "completed")


@pytest.mark.asyncio(loop_scope="module")
async def test_the_connection_is_closed_with_the_lifespan_which_can_be_entered_again(
    settings: GatewaySettings, one_fleet: ScriptedFleet
) -> None:
    assert one_fleet.working
    gateway = EmbeddedGateway(settings.model_copy(update={"allow_anonymous": True}))
    before = {task for task in asyncio.all_tasks() if not task.done()}
    statuses = list[int]()
    for _ in range(2):
        async with gateway.lifespan():
            transport = httpx.ASGITransport(gateway)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                statuses.append((await http.get("/readyz")).status_code)
    left = asyncio.all_tasks() - before
    assert (statuses, left) == ([200, 200], set())
    with pytest.raises(RuntimeError, match=r"gateway\.lifespan"):
        await gateway({"type": "http"}, _never, _never)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_application_learns_that_the_connection_is_closed_for_good(
    settings: GatewaySettings, one_fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one_fleet.working
    clients = connections(monkeypatch)
    gateway = EmbeddedGateway(settings.model_copy(update={"allow_anonymous": True}))
    reason = asyncio.get_running_loop().create_future()
    gateway.on_closed(reason.set_result)
    async with gateway.lifespan():
        [client] = [one for one in clients if one.is_connected]
        await client._close(NatsClient.CLOSED)  # as nats-py does it
        assert "closed permanently" in str(await asyncio.wait_for(reason, 60))


async def _never(*_: object) -> Any:  # noqa: ANN401 - ASGI's
    raise AssertionError


def test_without_credentials_anonymous_callers_must_be_allowed() -> None:
    with pytest.raises(Unprotected, match="HEADRACE_ALLOW_ANONYMOUS"):
        EmbeddedGateway(GatewaySettings(http_host="127.0.0.1"))
