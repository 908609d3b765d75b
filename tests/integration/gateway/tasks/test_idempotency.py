"""Idempotency-Key: what is sent again meets what came of it the first time."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.log.tombstone import put_tombstone
from headrace.model.task import TaskKey, mint_task_id
from headrace.tasks.forget import clear_away
from headrace_gateway.protocols.a2a.parameters import SendMessageParams
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.idempotency import IdempotencyRecord, IdempotencyRecords, KeyedRequest
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually

HEADER = "Idempotency-Key"


@contextmanager
def under(key: str, *clients: httpx.AsyncClient) -> Iterator[None]:
    """Let the clients send everything under `key` for the length of a block."""
    for http in clients:
        http.headers[HEADER] = key
    yield
    for http in clients:
        del http.headers[HEADER]


def some_key() -> str:
    return secrets.token_hex(8)


async def generations(bus: Bus, agent: str, task: str) -> list[int]:
    key = TaskKey("default", agent, task)
    last = await last_entry(bus, key)
    assert last is not None
    entries = [e async for batch in replay(bus, key, 0, last.sequence) for e in batch]
    return [
        generation for e in entries for generation in range(e.generation, e.last_generation + 1)
    ]


async def test_the_same_key_returns_the_same_task_on_any_gateway_and_binding(
    talk: Talk, http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    with under(some_key(), http, elsewhere):
        task = (await talk.call("SendMessage", message("hello")))["task"]
        for again in (talk, Rest(elsewhere), Rpc(elsewhere)):
            assert (await again.call("SendMessage", message("hello")))["task"] == task
    assert len(fleet.runs) == 1


async def test_without_the_header_nothing_is_deduplicated(talk: Talk) -> None:
    one, other = [(await talk.call("SendMessage", message()))["task"]["id"] for _ in range(2)]
    assert one != other


async def test_many_retries_at_once_on_two_gateways_make_one_task(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    for _ in range(3):
        fleet.runs.clear()
        with under(some_key(), http, elsewhere):
            clients = [Rest(http), Rest(elsewhere), Rpc(http), Rpc(elsewhere)]
            sending = [clients[i % 4].call("SendMessage", message("hello")) for i in range(50)]
            answers = await asyncio.gather(*sending)
        (task,) = {answer["task"]["id"] for answer in answers}
        assert {answer["task"]["status"]["state"] for answer in answers} == {"TASK_STATE_COMPLETED"}
        assert await generations(bus, "assistant", task) == [1, 2, 3, 4]
        assert len(fleet.runs) == 1


async def test_many_streams_at_once_are_of_one_task_and_equal(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async def frames(client: httpx.AsyncClient) -> list[tuple[str, Json]]:
        async with Rest(client).stream("SendStreamingMessage", message("hello")) as stream:
            return await stream.rest()

    with under(some_key(), http, elsewhere):
        first, *others = await asyncio.gather(
            *(frames([http, elsewhere][i % 2]) for i in range(20))
        )
    assert [cursor.partition(":")[2] for cursor, _ in first] == ["1", "2", "3", "4"]
    assert all(other == first for other in others)
    assert len(fleet.runs) == 1


async def test_a_stream_sent_again_is_the_whole_log_again(
    talk: Talk, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    agent, again = talk.to("patient"), Rest(elsewhere, "patient")
    with under(some_key(), talk.http, elsewhere):
        async with agent.stream("SendStreamingMessage", message()) as stream:
            frames = stream.frames()
            seen = [await anext(frames) for _ in range(3)]
        async with again.stream("SendStreamingMessage", message()) as stream:
            frames = stream.frames()
            assert [await anext(frames) for _ in range(3)] == seen
            fleet.runs[0].go_on.set()
            rest = [frame async for frame in frames]
        assert [cursor.partition(":")[2] for cursor, _ in rest] == ["4", "5"]
    assert len(fleet.runs) == 1


async def test_a_stream_sent_again_with_a_cursor_goes_on_behind_it(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    with under(some_key(), talk.http):
        async with talk.stream("SendStreamingMessage", message()) as stream:
            frames = await stream.rest()
        cursor = frames[1][0]
        async with talk.stream("SendStreamingMessage", message(), cursor) as stream:
            assert await stream.rest() == frames[2:]
        async with talk.stream("SendStreamingMessage", message(), frames[-1][0]) as stream:
            assert stream.response.is_success
            assert await stream.rest() == []
    assert len(fleet.runs) == 1


async def test_the_same_key_with_another_request_is_refused(talk: Talk) -> None:
    with under(some_key(), talk.http):
        await talk.call("SendMessage", message("one"))
        for other in (
            message("two"),
            message("one", contextId="other"),
            message("one") | {"metadata": {"a": 1}},
        ):
            for operation in ("SendMessage", "SendStreamingMessage"):
                refusal = await talk.refused(operation, other)
                assert refusal.code in (400, -32602)
                assert refusal.fields == {HEADER: "was used with another request"}


async def test_the_same_request_may_be_written_differently(talk: Talk) -> None:
    output = message()["message"]
    alike = {"parts": output["parts"], "message_id": output["messageId"], "role": 1}
    with under(some_key(), talk.http):
        task = (await talk.call("SendMessage", {"message": output}))["task"]
        assert (await talk.call("SendMessage", {"message": alike}))["task"] == task


async def test_each_agent_has_keys_of_its_own(talk: Talk) -> None:
    with under(some_key(), talk.http):
        one = (await talk.call("SendMessage", message()))["task"]
        other = (await talk.to("ask").call("SendMessage", message("other")))["task"]
    assert one["id"] != other["id"]


@pytest.mark.parametrize("key", ["schlüssel", "tab\tbed"])
async def test_what_a_header_can_hold_but_no_key_is_refused(json_talk: Talk, key: str) -> None:
    await test_what_can_be_no_key_is_refused(json_talk, key)


@pytest.mark.parametrize("key", ["", "a" * 256])
async def test_what_can_be_no_key_is_refused(talk: Talk, key: str) -> None:
    params = message()
    refusals = []
    for operation in ("SendMessage", "SendStreamingMessage"):
        async with talk.open(operation, params, {HEADER: key.encode("latin-1")}) as response:
            await response.aread()
            refusals.append(talk._refusal(response))
    assert len(refusals) == 2
    for refusal in refusals:
        assert refusal.code in (400, -32602)
        assert refusal.fields == {HEADER: "must be 1 to 255 printable ASCII characters"}


async def test_the_longest_key_is_taken(talk: Talk) -> None:
    with under(some_key() + "~" * 239, talk.http):
        task = (await talk.call("SendMessage", message()))["task"]
        assert (await talk.call("SendMessage", message()))["task"]["id"] == task["id"]


async def test_a_key_is_forgotten_after_its_time(settings: GatewaySettings, gateway: str) -> None:
    assert gateway
    changed = settings.model_copy(
        update={"http_port": ports.pick(), "grpc_port": 0, "idempotency_seconds": 4}
    )
    async with (
        running(changed) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        with under(some_key(), http):
            first = (await Rest(http).call("SendMessage", message()))["task"]["id"]
            assert (await Rest(http).call("SendMessage", message()))["task"]["id"] == first

            async def is_forgotten() -> bool:
                again = (await Rest(http).call("SendMessage", message()))["task"]["id"]
                return bool(again != first)

            await eventually(is_forgotten, "the key is forgotten")


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
async def test_a_gateway_killed_before_the_log_began_leaves_the_task_to_the_next(
    talk: Talk, bus: Bus, fleet: ScriptedFleet, operation: str
) -> None:
    key, task = some_key(), mint_task_id(3)
    request = KeyedRequest(
        Caller(), "assistant", key, SendMessageParams.read(message("hello")).fingerprint()
    )
    sent = IdempotencyRecord(
        fingerprint=request.fingerprint, task=task, context="conversation", run=1
    )
    kept = await IdempotencyRecords(bus, 60, time.time).claim(request.name, sent)
    assert kept.record == sent
    with under(key, talk.http):
        if operation == "SendMessage":
            found = (await talk.call(operation, message("hello")))["task"]
        else:
            async with talk.stream(operation, message("hello")) as stream:
                found = (await stream.rest())[0][1]["task"]
        assert (found["id"], found["contextId"]) == (task, "conversation")
        assert (await talk.call("SendMessage", message("hello")))["task"]["id"] == task
    assert await generations(bus, "assistant", task) == [1, 2, 3, 4]
    assert len(fleet.runs) == 1


async def test_a_task_past_its_retention_is_reported(talk: Talk, bus: Bus) -> None:
    with under(some_key(), talk.http):
        task = (await talk.call("SendMessage", message()))["task"]
        key = TaskKey("default", "assistant", task["id"])
        await put_tombstone(bus, key, "anonymous", "retention", 600, 0)
        await clear_away(bus, key)
        for operation in ("SendMessage", "SendStreamingMessage"):
            refusal = await talk.refused(operation, message())
            assert refusal.reason == "TASK_NOT_FOUND"
            assert "past its retention" in refusal.text


async def test_a_follow_up_sent_again_meets_the_same_run(
    talk: Talk, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    agent, again = talk.to("ask"), Rpc(elsewhere, "ask")
    request = (await agent.call("SendMessage", message()))["task"]
    answer = message("Ada", taskId=request["id"])
    with under(some_key(), talk.http, elsewhere):
        async with agent.stream("SendStreamingMessage", answer) as stream:
            frames = await stream.rest()
        async with again.stream("SendStreamingMessage", answer) as stream:
            assert await stream.rest() == frames
        async with again.stream("SendStreamingMessage", answer, frames[1][0]) as stream:
            assert await stream.rest() == frames[2:]
        task = (await agent.call("SendMessage", answer))["task"]
        assert task["status"]["message"]["parts"] == [{"text": "Hello Ada"}]
        refusal = await agent.refused("SendMessage", message("Bob", taskId=request["id"]))
        assert refusal.fields == {HEADER: "was used with another request"}
    assert [run.run for run in fleet.runs] == [1, 4]


async def test_many_follow_ups_at_once_under_one_key_make_one_run(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    for _ in range(3):
        fleet.runs.clear()
        request = (await Rest(http, "ask").call("SendMessage", message()))["task"]
        answer = message("Ada", taskId=request["id"])
        with under(some_key(), http, elsewhere):
            clients = [Rest(http, "ask"), Rest(elsewhere, "ask")]
            sending = [clients[i % 2].call("SendMessage", answer) for i in range(20)]
            tasks = [answer["task"] for answer in await asyncio.gather(*sending)]
        assert {task["id"] for task in tasks} == {request["id"]}
        assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_COMPLETED"}
        assert [run.run for run in fleet.runs] == [1, 4]


async def test_a_refused_follow_up_may_be_sent_again_under_its_key(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    params = message() | {"configuration": {"returnImmediately": True}}
    agent = talk.to("patient")
    task = (await agent.call("SendMessage", params))["task"]["id"]

    async def is_at_work() -> bool:
        found = await agent.call("GetTask", {"id": task})
        return bool(found["status"]["state"] == "TASK_STATE_WORKING")

    await eventually(is_at_work, "the agent works")
    with under(some_key(), talk.http):
        for _ in range(2):
            refusal = await agent.refused("SendMessage", message(taskId=task))
            assert refusal.reason == "UNSUPPORTED_OPERATION"
    assert len(fleet.runs) == 1


async def test_a_bare_message_sent_for_again_is_the_same_message(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("bare")
    with under(some_key(), talk.http):
        first = await agent.call("SendMessage", message("x"))
        assert first["message"]["parts"] == [{"text": "bare x"}]
        assert await agent.call("SendMessage", message("x")) == first
        async with agent.stream("SendStreamingMessage", message("x")) as stream:
            assert [event for _, event in await stream.rest()] == [first]
    assert len(fleet.runs) == 1


async def test_a_task_requested_again_at_once_is_shown_as_it_is(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("patient")
    params = message() | {"configuration": {"returnImmediately": True}}
    with under(some_key(), talk.http):
        task = (await agent.call("SendMessage", params))["task"]

        async def has_said_something() -> bool:
            return "artifacts" in await agent.call("GetTask", {"id": task["id"]})

        await eventually(has_said_something, "the agent has begun")
        again = (await agent.call("SendMessage", params))["task"]
    assert again["id"] == task["id"]
    assert again["status"]["state"] == "TASK_STATE_WORKING"
    assert again["artifacts"]
    assert len(fleet.runs) == 1
