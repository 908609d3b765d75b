"""Credentials on every way into a gateway, and refusals in each protocol's shape."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from websockets.typing import Subprotocol

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Rest, Rpc, Talk, message
from tests.support.clients.websocket import connect, socket_to
from tests.support.credentials import ANN, BOB, EVE, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

CHALLENGE = 'Bearer realm="headrace"'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("credentials") / "credentials.toml", ANN, EVE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(
    settings: GatewaySettings, one_fleet: ScriptedFleet, file: Path
) -> AsyncIterator[str]:
    assert one_fleet.working
    update = {"credentials": file, "http_port": ports.pick(), "grpc_port": 0}
    async with running(settings.model_copy(update=update)) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def nobody(guarded: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"A2A-Version": "1.0"}
    async with httpx.AsyncClient(
        base_url=guarded, headers=headers, timeout=60, verify=NO_TLS
    ) as http:
        yield http


@pytest.mark.parametrize("binding", [Rest, Rpc])
@pytest.mark.parametrize(
    ("credentials", "challenge"),
    [({}, CHALLENGE), (BOB.bearer, f'{CHALLENGE}, error="invalid_token"')],
    ids=["none", "unknown"],
)
async def test_a_call_of_nobody_is_refused_in_the_bindings_shape(
    nobody: httpx.AsyncClient, binding: type[Talk], credentials: dict[str, str], challenge: str
) -> None:
    nobody.headers.update(credentials)
    talk = binding(nobody, "assistant")
    calls = {
        "SendMessage": message("hello"),
        "SendStreamingMessage": message("hello"),
        "GetTask": {"id": "0-" + "0" * 32},
        "ListTasks": {},
        "CancelTask": {"id": "0-" + "0" * 32},
        "SubscribeToTask": {"id": "0-" + "0" * 32},
        "GetExtendedAgentCard": {},
        "ListTaskPushNotificationConfigs": {"taskId": "0-" + "0" * 32},
    }
    for operation, params in calls.items():
        refusal = await talk.refused(operation, params)
        assert (refusal.status, refusal.reason) == (401, "UNAUTHENTICATED"), operation
        assert refusal.headers["www-authenticate"] == challenge


async def test_who_is_unknown_learns_nothing_of_agents_and_bodies(
    nobody: httpx.AsyncClient,
) -> None:
    talk = Rest(nobody, "no-such-agent")
    assert (await talk.refused("SendMessage", {"nonsense": 1})).status == 401
    response = await nobody.post("/v1/agents/no-such-agent", content=b"no json")
    assert response.status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/message:send",
        "/stream",
        "/rpc",
        "/v1/agents/assistant/ag-ui",
        "/v1/agents/assistant/ag-ui/attach",
        "/v1/agents/assistant/ag-ui/stop",
        "/copilotkit",
        "/copilotkit/agent/assistant/run",
        "/copilotkit/agent/assistant/connect",
        "/copilotkit/agent/assistant/stop/thread",
    ],
)
async def test_who_is_unknown_is_refused_before_a_body_is_read(guarded: str, path: str) -> None:
    place = urlsplit(guarded)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 9000000\r\n\r\n".encode() + b" " * 100_000)
    async with asyncio.timeout(20):  # Less than a body has.
        assert b" 401 " in await reader.readline()
    writer.close()


async def test_agui_refuses_in_its_own_shape(nobody: httpx.AsyncClient) -> None:
    for path in ("/v1/agents/assistant/ag-ui", "/v1/agents/assistant/ag-ui/attach", "/api/agent"):
        response = await nobody.post(path, json={})
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "unauthenticated"
        assert response.headers["www-authenticate"] == CHALLENGE


async def test_sockets_are_closed_with_a_reason(guarded: str) -> None:
    for path in ("/v1/agents/assistant/stream", "/v1/agents/assistant/ag-ui/ws"):
        async with socket_to(guarded, path) as socket:
            code, reason = await socket.closed()
        assert code == 1008
        assert "credentials are required" in reason


async def test_a_browsers_socket_brings_its_token_among_its_subprotocols(guarded: str) -> None:
    for path in ("/v1/agents/assistant/stream", "/v1/agents/assistant/ag-ui/ws"):
        offered = [Subprotocol("headrace"), Subprotocol(f"bearer.{ANN.token}")]
        async with socket_to(guarded, path, subprotocols=offered) as socket:
            assert socket.connection.subprotocol == "headrace"
            await socket.connection.ping()
        offered[1] = Subprotocol("bearer.nobody")
        async with socket_to(guarded, path, subprotocols=offered) as socket:
            assert (await socket.closed())[0] == 1008


async def test_cards_are_public_and_state_what_to_send(nobody: httpx.AsyncClient) -> None:
    card = (await nobody.get("/v1/agents/assistant/.well-known/agent-card.json")).json()
    assert set(card["securitySchemes"]) == {"bearer", "apiKey"}
    for path in ("/v1/agents", "/.well-known/a2a", "/.well-known/a2a/agents/assistant", "/healthz"):
        assert (await nobody.get(path)).is_success


@pytest.mark.parametrize("binding", [Rest, Rpc])
@pytest.mark.parametrize("credentials", [ANN.bearer, ANN.key], ids=["bearer", "key"])
async def test_with_credentials_everything_works(
    nobody: httpx.AsyncClient, binding: type[Talk], credentials: dict[str, str]
) -> None:
    nobody.headers.update(credentials)
    answered = await binding(nobody, "assistant").call("SendMessage", message("hello"))
    assert answered["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_token_that_is_taken_out_is_refused_at_once_also_on_an_open_socket(
    guarded: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def complained() -> bool:
        return "could not reload the credentials" in caplog.text

    runs = f"ws{guarded.removeprefix('http')}/v1/agents/assistant/ag-ui/ws"
    async with (
        httpx.AsyncClient(base_url=guarded, headers=EVE.bearer, timeout=60, verify=NO_TLS) as http,
        socket_to(guarded, "/v1/agents/assistant/stream", additional_headers=EVE.bearer) as socket,
        connect(runs, additional_headers=EVE.bearer) as run,
    ):
        assert (await http.get("/v1/agents/assistant/tasks")).is_success
        write(file, ANN, BOB)

        async def refused() -> bool:
            return (await http.get("/v1/agents/assistant/tasks")).status_code == 401

        await eventually(refused, "the token is refused")
        http.headers.update(BOB.bearer)
        assert (await http.get("/v1/agents/assistant/tasks")).is_success
        await socket.send({"id": 1, "send": message("hello")})
        assert (await socket.next(1))["error"]["code"] == 401
        await run.send("{}")
        assert json.loads(await run.recv())["code"] == "unauthenticated"
        write(file, head="credential = 'nonsense'")
        await eventually(complained, "the file is found unreadable")
        assert (await http.get("/v1/agents/assistant/tasks")).is_success
    write(file, ANN, EVE)


async def test_private_cards_need_credentials_too(
    settings: GatewaySettings, one_fleet: ScriptedFleet, tmp_path: Path
) -> None:
    assert one_fleet.working
    file = write(tmp_path / "credentials.toml", ANN, head="public_cards = false")
    update = {"credentials": file, "http_port": ports.pick(), "grpc_port": 0}
    async with (
        running(settings.model_copy(update=update)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        for path in ("/", "/v1/agents", "/.well-known/a2a", "/v1/agents/assistant"):
            assert (await http.get(path)).status_code == 401
            assert (await http.get(path, headers=ANN.bearer)).is_success


async def test_an_agent_that_requires_credentials_refuses_anonymous_callers_where_others_do_not(
    http: httpx.AsyncClient, talk: Talk
) -> None:
    refusal = await talk.to("choosy").refused("SendMessage", message("hello"))
    assert refusal.reason == "UNAUTHENTICATED"
    card = (await http.get("/v1/agents/choosy/.well-known/agent-card.json")).json()
    schemes = card["securitySchemes"]
    assert set(schemes) == {"token", "key"}
    assert schemes["token"]["httpAuthSecurityScheme"] == {"scheme": "Bearer"}
    key = {"location": "header", "name": "X-API-Key"}
    assert schemes["key"]["apiKeySecurityScheme"] == key
    assert card["securityRequirements"] == [{"schemes": {"token": {}}}]


@pytest.mark.parametrize("binding", [Rest, Rpc])
async def test_it_answers_callers_whom_the_gateway_knows(
    nobody: httpx.AsyncClient, binding: type[Talk]
) -> None:
    nobody.headers.update(ANN.bearer)
    answered = await binding(nobody, "choosy").call("SendMessage", message("hello"))
    assert answered["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
