"""SubscribeToTask: from now, from a cursor, and when the past is lost."""

import asyncio

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model.task import TaskKey
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import Json, Rest, Rpc, Talk, message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually


async def begun(talk: Talk) -> tuple[str, str]:
    """Start a task that waits after its first chunk; return its id and its first cursor."""
    async with talk.to("patient").stream("SendStreamingMessage", message()) as stream:
        frames = stream.frames()
        cursor, event = await anext(frames)
        await anext(frames)
        await anext(frames)
    return event["task"]["id"], cursor


def generations(frames: list[tuple[str, Json]]) -> list[int]:
    return [int(cursor.partition(":")[2]) for cursor, _ in frames]


async def test_without_a_cursor_the_task_comes_first_and_what_follows_after_it(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    task, _ = await begun(talk)
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}) as stream:
        assert "headrace-recovered" not in stream.response.headers
        frames = stream.frames()
        cursor, event = await anext(frames)
        fleet.runs[0].go_on.set()
        rest = [frame async for frame in frames]
    assert event["task"]["artifacts"][0]["parts"] == [{"text": "a"}]
    assert cursor.endswith(f":{event['task']['metadata']['headrace.generation']}")
    assert generations(rest) == [4, 5]


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_cursor_goes_on_with_the_next_event(
    talk: Talk, fleet: ScriptedFleet, after: int
) -> None:
    task, first = await begun(talk)
    fleet.runs[0].go_on.set()
    cursor = f"{first.partition(':')[0]}:{after}"
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, cursor) as stream:
        assert generations(await stream.rest()) == list(range(after + 1, 6))


async def test_the_cursor_start_stands_before_the_first_event(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    task, _ = await begun(talk)
    fleet.runs[0].go_on.set()
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, "start") as stream:
        assert "headrace-recovered" not in stream.response.headers
        assert generations(await stream.rest()) == [1, 2, 3, 4, 5]


async def test_a_cursor_of_a_stream_requested_by_url_is_as_good(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    task, first = await begun(talk)
    fleet.runs[0].go_on.set()
    cursor = f"{task}/{first}"
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, cursor) as stream:
        assert generations(await stream.rest()) == [2, 3, 4, 5]


async def test_a_cursor_may_stand_in_the_query(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task, first = await begun(Rest(http))
    fleet.runs[0].go_on.set()
    path = f"/v1/agents/patient/tasks/{task}:subscribe"
    async with http.stream("GET", path, params={"after": first}) as response:
        ids = [line async for line in response.aiter_lines() if line.startswith("id: ")]
    assert [line.rpartition(":")[2] for line in ids] == ["2", "3", "4", "5"]


@pytest.mark.parametrize("over", [False, True], ids=["at work", "over"])
async def test_a_head_request_for_a_stream_gets_the_head_and_holds_nothing(
    gateway: str, fleet: ScriptedFleet, *, over: bool
) -> None:
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(
        base_url=gateway, limits=limits, timeout=60, verify=NO_TLS
    ) as alone:
        task, first = await begun(Rest(alone))
        if over:
            fleet.runs[0].go_on.set()
        path = f"/v1/agents/patient/tasks/{task}:subscribe"
        head = await alone.head(path, headers={"Last-Event-ID": first})
        assert head.status_code == 200
        assert head.headers["content-type"].startswith("text/event-stream")
        # On the same connection.
        assert (await Rest(alone, "patient").call("GetTask", {"id": task}))["id"] == task


async def test_a_head_sends_no_message(http: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    head = await http.head("/v1/agents/patient/message:stream?message=Hello")
    assert head.status_code == 200
    assert head.headers["content-type"].startswith("text/event-stream")
    assert fleet.runs == []


async def test_another_gateway_goes_on_where_the_first_one_was_left(
    http: httpx.AsyncClient, fleet: ScriptedFleet, settings: GatewaySettings
) -> None:
    task, cursor = await begun(Rest(http))
    async with (
        running(settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})) as other,
        httpx.AsyncClient(base_url=other, timeout=60, verify=NO_TLS) as there,
    ):
        agent = Rest(there, "patient")
        async with agent.stream("SubscribeToTask", {"id": task}, after=cursor) as stream:
            frames = stream.frames()
            seen = [await anext(frames)]
            fleet.runs[0].go_on.set()
            seen += [frame async for frame in frames]
    assert generations(seen) == [2, 3, 4, 5]


async def test_at_the_end_of_a_finished_task_nothing_is_left(
    http: httpx.AsyncClient, talk: Talk, fleet: ScriptedFleet
) -> None:
    task, first = await begun(talk)
    fleet.runs[0].go_on.set()
    agent = talk.to("patient")
    async with agent.stream("SubscribeToTask", {"id": task}, first) as stream:
        *_, (last, _) = await stream.rest()
    async with agent.stream("SubscribeToTask", {"id": task}, last) as stream:
        assert stream.response.status_code == 200
        assert await stream.rest() == []
    path = f"/v1/agents/patient/tasks/{task}:subscribe"
    assert (await http.get(path, headers={"Last-Event-ID": last})).status_code == 204


async def test_without_a_cursor_a_finished_task_cannot_be_subscribed_to(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message()))["task"]["id"]
    refusal = await talk.refused("SubscribeToTask", {"id": task})
    assert refusal.reason == "UNSUPPORTED_OPERATION"
    assert refusal.code in (-32004, 400)


async def test_at_an_interrupted_tasks_end_the_stream_waits_for_the_next_input(talk: Talk) -> None:
    agent = talk.to("ask")
    async with agent.stream("SendStreamingMessage", message()) as stream:
        *_, (last, event) = await stream.rest()
    task = event["statusUpdate"]["taskId"]
    async with agent.stream("SubscribeToTask", {"id": task}, last) as stream:
        answer = asyncio.create_task(agent.call("SendMessage", message("Ada", taskId=task)))
        frames = await asyncio.wait_for(stream.rest(), 60)
    await answer
    assert generations(frames) == [4, 5, 6]
    assert frames[-1][1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_replay_runs_past_a_question_that_has_been_answered(talk: Talk) -> None:
    agent = talk.to("ask")
    async with agent.stream("SendStreamingMessage", message()) as stream:
        (first, event), *_ = await stream.rest()
    await agent.call("SendMessage", message("Ada", taskId=event["task"]["id"]))
    async with agent.stream("SubscribeToTask", {"id": event["task"]["id"]}, first) as stream:
        assert generations(await stream.rest()) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("cursor", ["zzzzzzzz:2", "{log}:999", "{log}:0", "{log}:2.1", "what?"])
async def test_a_cursor_that_names_no_place_is_a_loss_and_reports_it(
    talk: Talk, fleet: ScriptedFleet, cursor: str
) -> None:
    task, first = await begun(talk)
    lost = cursor.replace("{log}", first.partition(":")[0])
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, lost) as stream:
        assert stream.response.headers["headrace-recovered"] == "false"
        frames = stream.frames()
        _, event = await anext(frames)
        fleet.runs[0].go_on.set()
        rest = [frame async for frame in frames]
    assert event["task"]["metadata"]["headrace.recovered"] is False
    assert event["task"]["artifacts"][0]["parts"] == [{"text": "a"}]
    assert generations(rest) == [4, 5]


async def test_a_loss_on_a_finished_task_is_its_snapshot_and_the_end(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    task, _ = await begun(talk)
    fleet.runs[0].go_on.set()
    await eventually(lambda: is_completed(talk.to("patient"), task), "the task is completed")
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, "zzzz:1") as stream:
        ((_, event),) = await asyncio.wait_for(stream.rest(), 60)
    assert event["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert event["task"]["metadata"]["headrace.recovered"] is False


async def test_a_purged_past_is_a_loss_not_a_hole(
    talk: Talk, fleet: ScriptedFleet, bus: Bus
) -> None:
    task, first = await begun(talk)
    fleet.runs[0].go_on.set()
    await eventually(lambda: is_completed(talk.to("patient"), task), "the task is completed")
    subject = bus.subjects.event(TaskKey("default", "patient", task))
    await bus.js.purge_stream(bus.streams.events(0), subject=subject, keep=1)
    refusal = await talk.to("patient").refused_stream("SubscribeToTask", {"id": task}, first)
    # The tests' task state knows of the task no more; the real one keeps its view.
    assert refusal.reason == "TASK_NOT_FOUND"


async def test_resuming_needs_no_task_state(talk: Talk, fleet: ScriptedFleet) -> None:
    task, first = await begun(talk)
    await fleet.stop_state()
    fleet.runs[0].go_on.set()
    async with talk.to("patient").stream("SubscribeToTask", {"id": task}, first) as stream:
        assert generations(await stream.rest()) == [2, 3, 4, 5]


async def test_many_subscribers_see_the_same_events_in_the_same_order(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task, cursor = await begun(Rest(http))

    async def follow(talk: Talk) -> list[Json]:
        async with talk.stream("SubscribeToTask", {"id": task}, cursor) as stream:
            return [event for _, event in await stream.rest()]

    followers = [
        asyncio.create_task(follow(kind(http, "patient")))
        for kind in (Rest, Rpc)
        for _ in range(10)
    ]
    await asyncio.sleep(0.05)
    fleet.runs[0].go_on.set()
    seen = await asyncio.gather(*followers)
    assert len(seen[0]) == 4
    assert all(events == seen[0] for events in seen)


async def is_completed(talk: Talk, task: str) -> bool:
    found = await talk.call("GetTask", {"id": task})
    return bool(found["status"]["state"] == "TASK_STATE_COMPLETED")
