"""Each of Hector's eight codes, over REST, JSON-RPC and WebSocket."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NoReturn

import httpx
import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from headrace import state_client
from headrace.jetstream.connection import Bus
from headrace.model.errors import BusUnavailable
from headrace.model.task import mint_task_id
from headrace.webhooks import MOST_PER_TASK
from tests.support.clients.bindings import Json
from tests.support.clients.websocket import socket_to
from tests.support.plain_http import NO_TLS
from tests.support.scripted_fleet import ScriptedFleet

STATUSES = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
}
"""As its documents pair them; OK is no error."""

SHAPES = {"format": "hector"}
HOOK = {"taskPushNotificationConfig": {"url": "https://hooks.example/"}}

type Ask = Callable[[str, Json], Awaitable[tuple[int, Json]]]
"""Sends an agent a body; returns the HTTP status and the envelope's error."""


@pytest_asyncio.fixture(loop_scope="module")
async def plain(gateway: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client that says nothing of versions, as curl does."""
    async with httpx.AsyncClient(
        base_url=gateway, params=SHAPES, timeout=60, verify=NO_TLS
    ) as plain:
        yield plain


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "jsonrpc", "websocket"])
async def ask(request: pytest.FixtureRequest, plain: httpx.AsyncClient, gateway: str) -> Ask:
    """Each way to send a message."""

    async def rest(agent: str, body: Json) -> tuple[int, Json]:
        answer = await plain.post(f"/v1/agents/{agent}/message:send", json=body)
        return answer.status_code, answer.json().get("error", {"code": "OK"})

    async def rpc(agent: str, body: Json) -> tuple[int, Json]:
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send"}
        answer = await plain.post("/rpc", json=call | {"params": {"name": agent, **body}})
        error = answer.json().get("error", {"data": {"code": "OK"}})["data"]
        return STATUSES.get(error["code"], 200), error

    async def socket(agent: str, body: Json) -> tuple[int, Json]:
        async with socket_to(gateway, f"/v1/agents/{agent}/stream?format=hector") as socket:
            await socket.send({"id": 1, **body})
            error = (await socket.next(1)).get("error", {"code": "OK"})
        return STATUSES.get(error["code"], 200), error

    return {"rest": rest, "jsonrpc": rpc, "websocket": socket}[request.param]


@pytest_asyncio.fixture(loop_scope="module")
async def asking(plain: httpx.AsyncClient) -> str:
    """A task that waits for its user."""
    sent = await plain.post("/v1/agents/ask/message:send", json=said())
    task: str = sent.json()["task_id"]
    return task


def said(**fields: str) -> Json:
    return {"message": {"role": "ROLE_USER", "content": [{"text": "Hello"}], **fields}}


async def refused(ask: Ask, code: str, agent: str, body: Json) -> Json:
    status, error = await ask(agent, body)
    assert (status, error["code"]) == (STATUSES[code], code), error
    assert error["message"]
    assert error["details"]["reason"]
    return error


async def test_ok(ask: Ask) -> None:
    status, error = await ask("assistant", said())
    assert (status, error["code"]) == (200, "OK")


async def test_invalid_argument(ask: Ask) -> None:
    error = await refused(ask, "INVALID_ARGUMENT", "assistant", {"message": {"content": 5}})
    assert error["details"]["fields"] == {"message.parts": "must be a list"}


async def test_not_found(ask: Ask) -> None:
    await refused(ask, "NOT_FOUND", "ask", said(task_id=mint_task_id(0)))


async def test_resource_exhausted(ask: Ask, asking: str, http: httpx.AsyncClient) -> None:
    for number in range(MOST_PER_TASK):
        config = {"id": f"c{number}", "url": "https://hooks.example/"}
        await http.post(f"/v1/agents/ask/tasks/{asking}/pushNotificationConfigs", json=config)
    body = said(task_id=asking) | {"configuration": HOOK}
    error = await refused(ask, "RESOURCE_EXHAUSTED", "ask", body)
    assert error["details"]["reason"] == "TOO_MANY_PUSH_CONFIGS"


async def test_internal(ask: Ask, fleet: ScriptedFleet, bus: Bus) -> None:
    async def answer_wrongly(msg: Msg) -> None:
        await msg.respond(b'{"task": 5}')

    await fleet.stop_state()
    wrong_answers = await bus.connection.subscribe(bus.subjects.state("get"), cb=answer_wrongly)
    await bus.connection.flush()
    try:
        # Task state decides what is said of a task that has no log.
        error = await refused(ask, "INTERNAL", "ask", said(task_id=mint_task_id(0)))
    finally:
        await wrong_answers.unsubscribe()
        await bus.connection.flush()
    # What it was is told to our log alone.
    assert "incident" in error["message"]
    assert "task" not in error["message"]


async def test_unavailable(ask: Ask, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_away(*_: object) -> NoReturn:
        raise BusUnavailable("the log's leader does not answer")

    monkeypatch.setattr(state_client, "task_in_log", is_away)
    await fleet.stop_state()
    await refused(ask, "UNAVAILABLE", "ask", said(task_id=mint_task_id(0)))


@pytest.mark.parametrize("over", ["rest", "jsonrpc"])
@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "PERMISSION_DENIED"])
async def test_callers_without_permission_are_refused_before_anything_is_read(
    plain: httpx.AsyncClient, code: str, over: str
) -> None:
    """A WebSocket is not even opened."""
    agent = "choosy" if code == "UNAUTHENTICATED" else "assistant"
    headers = {"Origin": "https://elsewhere.example"} if agent == "assistant" else {}
    if over == "rest":
        answer = await plain.post(f"/v1/agents/{agent}/message:send", json=said(), headers=headers)
        error = answer.json()["error"]
    else:
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send"}
        call |= {"params": {"name": agent, **said()}}
        answer = await plain.post("/rpc", json=call, headers=headers)
        error = answer.json()["error"]
        error = error.get("data", error)
    assert (answer.status_code, error["code"]) == (STATUSES[code], code)
