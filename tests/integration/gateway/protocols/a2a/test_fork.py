"""ForkTask over each binding: a new task with another's past, once per key, for its owner alone."""

import asyncio
import secrets
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.tombstone import put_tombstone
from headrace.model.task import TaskKey
from headrace_gateway.extensions import FORKS
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.clients.websocket import socket_to
from tests.support.credentials import ANN, EVE, write
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

WAITING = "TASK_STATE_INPUT_REQUIRED"


def said(text: str) -> Json:
    """Return a user's Message."""
    body: Json = message(text)["message"]
    return body


async def asked(talk: Talk) -> Json:
    """Return a task that waits for its user."""
    task: Json = (await talk.to("ask").call("SendMessage", message()))["task"]
    return task


async def ended(talk: Talk, task: str) -> Json:
    """Return the task once it is over."""
    found: list[Json] = []

    async def is_over() -> bool:
        found.append(await talk.to("ask").call("GetTask", {"id": task}))
        return bool(found[-1]["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(is_over, "the fork is over")
    return found[-1]


async def test_a_fork_goes_on_with_its_own_message(talk: Talk, fleet: ScriptedFleet) -> None:
    source = await asked(talk)
    generation = source["metadata"]["headrace.generation"]
    params = {"id": source["id"], "generation": generation, "message": said("Ada")}
    fork = await talk.to("ask").call("ForkTask", params)
    of = fork["metadata"]["headrace.forkOf"]
    done = await ended(talk, fork["id"])
    assert (of["task"], of["generation"]) == (source["id"], generation)
    assert fork["contextId"] != source["contextId"]
    assert done["status"]["message"]["parts"] == [{"text": "Hello Ada"}]
    assert await talk.to("ask").call("GetTask", {"id": source["id"]}) == source
    assert fleet.runs


async def test_a_fork_without_a_message_waits_as_its_source_does(talk: Talk) -> None:
    source = await asked(talk)
    fork = await talk.to("ask").call("ForkTask", {"id": source["id"]})
    assert (fork["status"]["state"], fork["id"] != source["id"]) == (WAITING, True)
    assert fork["status"]["message"]["parts"] == source["status"]["message"]["parts"]


async def test_a_websocket_forks_with_a_frame_of_its_own(
    gateway: str, http: httpx.AsyncClient
) -> None:
    source = await asked(Rest(http))
    async with socket_to(gateway, "/v1/agents/ask/stream") as socket:
        frame = {"id": 1, "fork": {"task": source["id"]}, "idempotencyKey": secrets.token_hex(8)}
        await socket.send(frame)
        first = (await socket.next(1))["result"]
        await socket.send({**frame, "id": 2})
        again = (await socket.next(2))["result"]
        await socket.send(
            {"jsonrpc": "2.0", "id": 3, "method": "ForkTask", "params": {"id": source["id"]}}
        )
        other = (await socket.next(3))["result"]
    assert (first["status"]["state"], again["id"]) == (WAITING, first["id"])
    assert other["id"] != first["id"]


async def test_the_card_offers_forks(http: httpx.AsyncClient) -> None:
    card = (await http.get("/v1/agents/ask/.well-known/agent-card.json")).json()
    assert FORKS in {one["uri"] for one in card["capabilities"]["extensions"]}


async def test_the_same_key_forks_once_on_any_gateway(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, bus: Bus
) -> None:
    source = await asked(Rest(http))
    headers = {"A2A-Version": "1.0", "Idempotency-Key": secrets.token_hex(8)}
    path = f"/v1/agents/ask/tasks/{source['id']}:fork"
    body = {"message": said("Ada")}
    answers = await asyncio.gather(
        *(
            client.post(path, json=body, headers=headers)
            for client in (http, elsewhere, http, elsewhere)
        )
    )
    reused = await elsewhere.post(path, json={"message": said("Eve")}, headers=headers)
    sent = await http.post("/v1/agents/ask/message:send", json=body, headers=headers)
    forks = {answer.json()["id"] for answer in answers}
    assert len(forks) == 1
    done = await ended(Rest(http), forks.pop())
    # The past, the message, WORKING and the end: nothing is there twice.
    assert len([m for m in done["history"] if m["parts"] == [{"text": "Ada"}]]) == 1
    assert (reused.status_code, sent.status_code) == (400, 400)
    assert await last_entry(bus, TaskKey("default", "ask", done["id"])) is not None


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"generation": 0}, "generation"),
        ({"generation": -1}, "generation"),
        ({"generation": 10**12}, "generation"),
        ({"generation": 10**30}, "generation"),
        ({"generation": "9" * 5000}, "generation"),
        ({"generation": 1.5}, "generation"),
        ({"generation": True}, "generation"),
        ({"generation": {"$gt": 1}}, "generation"),
        ({"generation": "x"}, "generation"),
        ({"message": "text"}, "message"),
        ({"message": {}}, "message.parts"),
        ({"message": {**said("x"), "taskId": "0-" + "0" * 32}}, "message"),
        ({"message": {**said("x"), "contextId": "c"}}, "message"),
        ({"message": {**said("x"), "role": "ROLE_AGENT"}}, "message.role"),
        ({"metadata": {"a": 1}}, "metadata"),
        (
            {"message": said("x"), "metadata": {"headrace.priority": "highest"}},
            "metadata.headrace.priority",
        ),
    ],
)
async def test_what_is_no_fork_is_refused_and_begins_nothing(
    json_talk: Talk, params: Json, field: str
) -> None:
    talk = json_talk.to("ask")
    source = await asked(json_talk)
    before = (await talk.call("ListTasks", {}))["totalSize"]
    refusal = await talk.refused("ForkTask", {"id": source["id"], **params})
    assert field in refusal.fields
    assert (await talk.call("ListTasks", {}))["totalSize"] == before


@pytest.mark.parametrize("task", ["x", "9999-" + "0" * 32, "0-" + "0" * 32, "../x", ""])
async def test_what_is_no_task_can_not_be_forked(http: httpx.AsyncClient, task: str) -> None:
    refusal = await Rpc(http, "ask").refused("ForkTask", {"id": task, "message": said("x")})
    assert refusal.reason in {"TASK_NOT_FOUND", "INVALID_PARAMS"}


@pytest.mark.parametrize(
    "body", ["[]", "7", '{"generation":', '{"message": null, "generation": null}']
)
async def test_any_body_is_answered(http: httpx.AsyncClient, body: str) -> None:
    path = f"/v1/agents/ask/tasks/0-{'0' * 32}:fork"
    answer = await http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500


async def test_reserved_metadata_of_the_caller_is_no_source(json_talk: Talk) -> None:
    source = await asked(json_talk)
    forged = {"headrace.forkOf": {"task": "0-" + "1" * 32}, "mine": 1}
    params: Any = {"id": source["id"], "message": said("x"), "metadata": forged}
    fork = await json_talk.to("ask").call("ForkTask", params)
    assert fork["metadata"]["headrace.forkOf"]["task"] == source["id"]


async def test_a_deleted_task_is_not_found(http: httpx.AsyncClient, bus: Bus) -> None:
    source = await asked(Rest(http))
    key = TaskKey("default", "ask", source["id"])
    last = await last_entry(bus, key)
    assert last is not None
    await put_tombstone(bus, key, "anonymous", "retention", 600.0, last.sequence)
    refusal = await Rest(http, "ask").refused("ForkTask", {"id": source["id"]})
    assert refusal.reason == "TASK_NOT_FOUND"


async def test_a_repeated_request_finds_its_fork_though_the_source_is_gone(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    source = await asked(Rest(http))
    headers = {"A2A-Version": "1.0", "Idempotency-Key": secrets.token_hex(8)}
    path = f"/v1/agents/ask/tasks/{source['id']}:fork"
    first = (await http.post(path, json={}, headers=headers)).json()
    key = TaskKey("default", "ask", source["id"])
    last = await last_entry(bus, key)
    assert last is not None
    await put_tombstone(bus, key, "anonymous", "retention", 600.0, last.sequence)
    again = (await http.post(path, json={}, headers=headers)).json()
    assert again.get("id") == first["id"], again


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("credentials") / "credentials.toml", ANN, EVE)


async def test_another_owners_task_can_not_be_forked(
    settings: GatewaySettings, one_fleet: ScriptedFleet, credentials: Path
) -> None:
    assert one_fleet.working
    update = {"credentials": credentials, "http_port": ports.pick(), "grpc_port": 0}
    async with running(settings.model_copy(update=update)) as url:

        def client(token: str) -> httpx.AsyncClient:
            headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
            return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_TLS)

        async with client(ANN.token) as hers, client(EVE.token) as others:
            source = await asked(Rest(hers))
            foreign = await Rest(others, "ask").send("ForkTask", {"id": source["id"]})
            unknown = await Rest(others, "ask").send("ForkTask", {"id": "0-" + "7" * 32})
            own = await Rest(hers, "ask").send("ForkTask", {"id": source["id"]})
    masked = foreign.text.replace(source["id"], "0-" + "7" * 32)
    assert (foreign.status_code, masked) == (unknown.status_code, unknown.text)
    assert own.is_success
