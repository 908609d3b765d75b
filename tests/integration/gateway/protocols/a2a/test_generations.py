"""A2A v1.1's generations as an extension: long polls, and messages on a condition."""

import asyncio

import httpx
import pytest

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

EXTENSION = "urn:headrace:generation:v1"


def generation(task: Json) -> int:
    return int(task["metadata"]["headrace.generation"])


def on_condition(wanted: object, task: str, text: str = "Ada") -> Json:
    return message(text, taskId=task) | {"configuration": {"ifGenerationMatch": wanted}}


async def waiting_run(agent: Talk, fleet: ScriptedFleet) -> tuple[Json, Run]:
    """Return a task at generation 3, and its run, which waits."""
    params = message() | {"configuration": {"returnImmediately": True}}
    started = (await agent.call("SendMessage", params))["task"]

    async def waits() -> bool:
        return bool(fleet.runs) and fleet.runs[0].writer.generation == 3

    await eventually(waits, "the run waits")
    return await agent.call("GetTask", {"id": started["id"]}), fleet.runs[0]


async def test_the_extension_is_declared_and_echoed(http: httpx.AsyncClient) -> None:
    card = (await http.get("/.well-known/agent-card.json")).json()
    assert EXTENSION in {one["uri"] for one in card["capabilities"]["extensions"]}
    answer = await http.post("/message:send", json=message(), headers={"A2A-Extensions": EXTENSION})
    assert answer.headers["a2a-extensions"] == EXTENSION
    assert generation(answer.json()["task"]) == 4


async def test_a_poll_waits_for_a_newer_generation(talk: Talk, fleet: ScriptedFleet) -> None:
    agent = talk.to("patient")
    task, run = await waiting_run(agent, fleet)
    assert generation(task) == 3
    request = {"id": task["id"], "currentGeneration": 3}
    polling = asyncio.create_task(agent.call("GetTask", request))
    later = asyncio.create_task(agent.call("GetTask", request | {"currentGeneration": "4"}))
    done, _ = await asyncio.wait({polling, later}, timeout=0.5)
    assert not done
    await run.chunk("x")
    assert generation(await asyncio.wait_for(polling, 60)) == 4
    assert not later.done()
    run.go_on.set()
    assert generation(await asyncio.wait_for(later, 60)) > 4


@pytest.mark.parametrize("known", [0, 2, "1"])
async def test_a_poll_for_what_is_there_returns_at_once(
    talk: Talk, fleet: ScriptedFleet, known: object
) -> None:
    agent = talk.to("patient")
    task, _ = await waiting_run(agent, fleet)
    request = {"id": task["id"], "currentGeneration": known}
    assert generation(await asyncio.wait_for(agent.call("GetTask", request), 60)) == 3


async def test_a_poll_of_a_task_that_is_over_returns_at_once(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message()))["task"]
    request = {"id": task["id"], "currentGeneration": 99, "historyLength": 0}
    found = await asyncio.wait_for(talk.call("GetTask", request), 60)
    assert generation(found) == 4
    assert "history" not in found


async def test_a_poll_ends_after_its_time_and_when_the_gateway_stops(
    settings: GatewaySettings, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task, _ = await waiting_run(Rest(http, "patient"), fleet)
    request = {"id": task["id"], "currentGeneration": 3}
    changed = settings.model_copy(
        update={"http_port": ports.pick(), "grpc_port": 0, "long_poll": 0.3}
    )
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as other,
    ):
        assert generation(await Rpc(other, "patient").call("GetTask", request)) == 3
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{changed.http_port}", timeout=60, verify=NO_TLS
    ) as other:
        async with running(changed):
            polling = asyncio.create_task(Rest(other, "patient").call("GetTask", request))
            await asyncio.wait({polling}, timeout=0.5)
            assert not polling.done()
        assert generation(await asyncio.wait_for(polling, 60)) == 3


async def test_a_message_is_taken_only_at_the_generation_that_it_names(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("ask")
    task = (await agent.call("SendMessage", message()))["task"]
    at = generation(task)
    for operation in ("SendMessage", "SendStreamingMessage"):
        for wanted in (at - 1, at + 1, 0):
            refusal = await agent.refused(operation, on_condition(wanted, task["id"]))
            assert refusal.reason == "TASK_GENERATION_MISMATCH"
            assert refusal.code in (409, -32010)
            assert f"generation {at}" in refusal.text
    assert len(fleet.runs) == 1
    after = (await agent.call("SendMessage", on_condition(str(at), task["id"])))["task"]
    assert after["status"]["state"] == "TASK_STATE_COMPLETED"
    refusal = await agent.refused("SendMessage", on_condition(at, task["id"]))
    assert refusal.reason == "TASK_GENERATION_MISMATCH"


async def test_of_many_messages_at_once_on_one_condition_one_is_taken(
    settings: GatewaySettings, http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    changed = settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as other,
    ):
        task = (await Rest(http, "ask").call("SendMessage", message()))["task"]
        params = [on_condition(generation(task), task["id"], str(n)) for n in range(10)]
        sending = [
            Rest([http, other][n % 2], "ask").send("SendMessage", one)
            for n, one in enumerate(params)
        ]
        statuses = [response.status_code for response in await asyncio.gather(*sending)]
    assert sorted(statuses) == [200] + [409] * 9
    assert len(fleet.runs) == 2


@pytest.mark.parametrize("wrong", [-1, 1.5, "x", True, {}, 2**63])
async def test_what_is_no_generation_is_refused(talk: Talk, wrong: object) -> None:
    agent = talk.to("ask")
    task = (await agent.call("SendMessage", message()))["task"]["id"]
    refusal = await agent.refused("SendMessage", on_condition(wrong, task))
    assert list(refusal.fields) == ["configuration.ifGenerationMatch"]
    if isinstance(talk, Rpc):
        refusal = await agent.refused("GetTask", {"id": task, "currentGeneration": wrong})
        assert list(refusal.fields) == ["currentGeneration"]


async def test_a_condition_without_a_task_is_refused(talk: Talk) -> None:
    params = message() | {"configuration": {"ifGenerationMatch": 1}}
    refusal = await talk.refused("SendMessage", params)
    assert list(refusal.fields) == ["configuration.ifGenerationMatch"]
