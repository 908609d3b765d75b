"""SendMessage and SendStreamingMessage, on every binding."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.events import TASK_ALREADY_SENT, TRACEPARENT
from headrace.model.messages import RunRequest
from headrace.model.task import TaskKey
from tests.support.clients.bindings import Json, Talk, message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


def texts(task: Json) -> list[str]:
    return [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]]


def states(frames: list[tuple[str, Json]]) -> list[str]:
    bearers = [event.get("task") or event.get("statusUpdate") for _, event in frames]
    return [bearer["status"]["state"].removeprefix("TASK_STATE_") for bearer in bearers if bearer]


async def test_sending_blocks_until_the_task_is_over(talk: Talk) -> None:
    task = (await talk.call("SendMessage", message("hello")))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(task) == ["hello"]
    assert [text["parts"] for text in task["history"]] == [[{"text": "hello"}]]


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'0' * 32}-{'b' * 16}-01", False),
        (f"ff-{'a' * 32}-{'b' * 16}-01", False),
        ("nonsense", False),
    ],
)
async def test_the_trace_context_of_a_request_is_kept_beside_its_input(
    talk: Talk, stated: str, *, kept: bool
) -> None:
    sent = {"traceparent": stated}
    async with talk.stream("SendStreamingMessage", message(), headers=sent) as stream:
        _, first = (await stream.rest())[0]
    assert first["task"]["metadata"].get(TRACEPARENT) == (stated if kept else None)


async def test_sending_blocks_until_the_task_requests_input(talk: Talk) -> None:
    task = (await talk.to("ask").call("SendMessage", message()))["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert task["status"]["message"]["parts"] == [{"text": "What is your name?"}]


async def test_sending_returns_at_once_on_request(talk: Talk) -> None:
    params = message() | {"configuration": {"returnImmediately": True}}
    task = (await talk.to("patient").call("SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    found = await talk.to("patient").call("GetTask", {"id": task["id"]})
    assert found["id"] == task["id"]


async def test_a_stream_is_the_log_from_the_task_to_its_end(talk: Talk) -> None:
    async with talk.stream("SendStreamingMessage", message("hello")) as stream:
        frames = await stream.rest()
    assert [next(iter(event)) for _, event in frames] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert states(frames) == ["SUBMITTED", "WORKING", "COMPLETED"]
    logs = {cursor.partition(":")[0] for cursor, _ in frames}
    assert len(logs) == 1
    assert [cursor.partition(":")[2] for cursor, _ in frames] == ["1", "2", "3", "4"]


async def test_a_stream_over_http_is_of_events_that_must_not_be_cached(json_talk: Talk) -> None:
    async with json_talk.stream("SendStreamingMessage", message("hello")) as stream:
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"


async def test_numbers_and_unknown_metadata_come_back_as_they_went(json_talk: Talk) -> None:
    talk = json_talk
    data: Json = {
        "zero": 0,
        "large": 9007199254740993,
        "half": 0.5,
        "one": 1.0,
        "none": None,
        "list": [],
    }
    sent = message(parts=[{"data": data}, {"text": ""}], metadata={"n": 0})
    task = (await talk.to("patient").call("SendMessage", immediately(sent)))["task"]
    (output,) = task["history"]
    assert output["parts"] == [{"data": data}, {"text": ""}]
    assert output["metadata"] == {"n": 0}
    read = await talk.to("patient").call("GetTask", {"id": task["id"]})
    assert read["history"] == task["history"]
    assert isinstance(read["history"][0]["parts"][0]["data"]["zero"], int)


async def test_requests_are_read_as_protojson_allows_them(talk: Talk) -> None:
    output = {"message_id": "m", "role": 1, "parts": [{"raw": "_-8", "media_type": "x/y"}]}
    params = {"message": output, "configuration": {"return_immediately": True}, "unknown": 1}
    task = (await talk.to("patient").call("SendMessage", params))["task"]
    (read,) = task["history"]
    assert (read["messageId"], read["role"]) == ("m", "ROLE_USER")
    assert read["parts"] == [{"raw": "/+8=", "mediaType": "x/y"}]


async def test_a_follow_up_continues_the_same_task(talk: Talk) -> None:
    agent = talk.to("ask")
    request = (await agent.call("SendMessage", message()))["task"]
    task = (await agent.call("SendMessage", message("Ada", taskId=request["id"])))["task"]
    assert (task["id"], task["contextId"]) == (request["id"], request["contextId"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "Hello Ada"}]
    text = [part["text"] for item in task["history"] for part in item["parts"]]
    assert text == ["hi", "What is your name?", "Ada"]


async def test_a_follow_ups_stream_starts_with_the_task(talk: Talk) -> None:
    agent = talk.to("ask")
    request = (await agent.call("SendMessage", message()))["task"]
    params = message("Ada", taskId=request["id"], contextId=request["contextId"])
    async with agent.stream("SendStreamingMessage", params) as stream:
        frames = await stream.rest()
    assert states(frames) == ["INPUT_REQUIRED", "SUBMITTED", "WORKING", "COMPLETED"]
    first = frames[0][1]["task"]
    assert first["id"] == request["id"]
    generations = [int(cursor.partition(":")[2]) for cursor, _ in frames]
    assert generations == list(range(generations[0], generations[0] + 4))
    assert generations[0] == first["metadata"]["headrace.generation"]


async def test_a_stream_ends_when_the_task_requests_input(talk: Talk) -> None:
    async with talk.to("ask").stream("SendStreamingMessage", message()) as stream:
        frames = await asyncio.wait_for(stream.rest(), 60)
    assert states(frames)[-1] == "INPUT_REQUIRED"


async def test_history_is_cut_to_what_was_requested(talk: Talk) -> None:
    none = await talk.call("SendMessage", message() | {"configuration": {"historyLength": 0}})
    assert "history" not in none["task"]
    async with talk.stream(
        "SendStreamingMessage", message() | {"configuration": {"historyLength": 0}}
    ) as stream:
        frames = await stream.rest()
    assert "history" not in frames[0][1]["task"]
    assert [cursor.partition(":")[2] for cursor, _ in frames] == ["1", "2", "3", "4"]


async def test_a_bare_message_is_all_that_its_client_sees(talk: Talk) -> None:
    agent = talk.to("bare")
    answer = await agent.call("SendMessage", message())
    assert answer.keys() == {"message"}
    assert answer["message"]["parts"] == [{"text": "bare hi"}]
    async with agent.stream("SendStreamingMessage", message()) as stream:
        frames = await stream.rest()
    assert [event.keys() for _, event in frames] == [{"message"}]


async def test_an_agent_that_may_answer_barely_may_still_make_a_task(talk: Talk) -> None:
    agent = talk.to("bare")
    assert texts((await agent.call("SendMessage", message("task")))["task"]) == ["a task after all"]
    async with agent.stream("SendStreamingMessage", message("task")) as stream:
        frames = await stream.rest()
    assert states(frames) == ["SUBMITTED", "WORKING", "COMPLETED"]


async def test_after_two_seconds_the_task_is_shown_and_the_message_completes_it(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    async with talk.to("bare").stream("SendStreamingMessage", message("late")) as stream:
        frames = stream.frames()
        shown = [await anext(frames), await anext(frames)]
        fleet.runs[-1].go_on.set()
        shown += [frame async for frame in frames]
    assert states(shown) == ["SUBMITTED", "WORKING", "COMPLETED"]
    completed = shown[-1][1]["statusUpdate"]
    assert completed["status"]["message"]["parts"] == [{"text": "bare late"}]
    assert completed["taskId"] == shown[0][1]["task"]["id"]


async def test_a_bare_answer_is_a_task_to_who_would_not_wait(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("bare")
    shown = (await agent.call("SendMessage", immediately(message("late"))))["task"]
    assert shown["status"]["state"] == "TASK_STATE_SUBMITTED"
    await eventually(has_runs(fleet), "the agent works")
    assert fleet.runs[-1].metadata[TASK_ALREADY_SENT] is True, "the worker is told"
    fleet.runs[-1].go_on.set()

    async def completed() -> bool:
        found = await agent.call("GetTask", {"id": shown["id"]})
        return bool(found["status"]["state"] == "TASK_STATE_COMPLETED")

    await eventually(completed, "the task is completed")


async def test_a_message_to_an_agent_without_a_worker_queues(
    talk: Talk, fleet: ScriptedFleet, bus: Bus
) -> None:
    await fleet.stop_working()
    task = (await talk.call("SendMessage", immediately(message())))["task"]
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    run = bus.subjects.run(TaskKey("default", "assistant", task["id"]), 1)

    async def waits() -> bool:
        info = await bus.js.stream_info(bus.streams.runs, subjects_filter=run)
        return info.state.subjects == {run: 1}

    await eventually(waits, "the run waits for a worker")


async def test_a_client_that_goes_away_does_not_touch_the_task(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("patient")
    async with agent.stream("SendStreamingMessage", message()) as stream:
        cursor, event = await anext(stream.frames())
    task = event["task"]["id"]
    await eventually(has_runs(fleet), "the agent works")
    fleet.runs[0].go_on.set()
    async with agent.stream("SubscribeToTask", {"id": task}, after=cursor) as stream:
        frames = await stream.rest()
    assert states(frames)[-1] == "COMPLETED"


async def test_a_blocked_callers_leaving_ends_only_the_waiting(
    http: httpx.AsyncClient, talk: Talk, fleet: ScriptedFleet
) -> None:
    agent = talk.to("patient")
    context = secrets.token_hex(4)
    params = message(contextId=context)
    waiting = asyncio.create_task(agent.call("SendMessage", params))
    await eventually(has_runs(fleet), "the agent works")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    fleet.runs[0].go_on.set()

    async def completed() -> bool:
        listed = await agent.call("ListTasks", {"contextId": context})
        return [task["status"]["state"] for task in listed["tasks"]] == ["TASK_STATE_COMPLETED"]

    await eventually(completed, "the task is completed")
    assert (await http.get("/healthz")).is_success


async def test_what_a_client_sends_beside_its_message_cannot_pose_as_ours(talk: Talk) -> None:
    output = {"metadata": {"plan": "b", "headrace.generation": 7, "headrace.attempt": 3}}
    async with talk.to("patient").stream("SendStreamingMessage", message() | output) as stream:
        _, event = await anext(stream.frames())
    assert event["task"]["metadata"] == {"plan": "b", "headrace.generation": 1}


async def test_many_clients_at_once_each_get_their_own_answer(talk: Talk) -> None:
    calls = [talk.call("SendMessage", message(f"number {n}")) for n in range(30)]
    tasks = [answer["task"] for answer in await asyncio.gather(*calls)]
    assert [texts(task) for task in tasks] == [[f"number {n}"] for n in range(30)]


def immediately(params: Json) -> Json:
    return params | {"configuration": {"returnImmediately": True}}


def has_runs(fleet: ScriptedFleet) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return bool(fleet.runs)

    return holds


async def waiting_run(bus: Bus, key: TaskKey, number: int) -> RunRequest:
    subject = bus.subjects.run(key, number)

    async def waiting() -> bool:
        info = await bus.js.stream_info(bus.streams.runs, subjects_filter=subject)
        return info.state.subjects == {subject: 1}

    await eventually(waiting, "the run waits for a worker")
    stored = await bus.js.get_last_msg(bus.streams.runs, subject)
    return RunRequest.decode("run", stored.data or b"")


@pytest.mark.parametrize(("size", "is_carried"), [(10, True), (20_000, False)])
async def test_a_new_tasks_run_carries_its_input_unless_that_is_large(
    talk: Talk, fleet: ScriptedFleet, bus: Bus, size: int, *, is_carried: bool
) -> None:
    await fleet.stop_working()
    task = (await talk.call("SendMessage", immediately(message("x" * size))))["task"]
    key = TaskKey("default", "assistant", task["id"])
    run, input_ = await waiting_run(bus, key, 1), await last_entry(bus, key)
    assert input_ is not None
    carried = (input_.lines[0].decode(), input_.sequence) if is_carried else (None, None)
    assert (run.input, run.sequence) == carried


async def test_a_follow_ups_run_carries_its_input(
    talk: Talk, fleet: ScriptedFleet, bus: Bus
) -> None:
    agent = talk.to("ask")
    task = (await agent.call("SendMessage", message("hello")))["task"]
    key = TaskKey("default", "ask", task["id"])
    before = await last_entry(bus, key)
    assert before is not None
    await fleet.stop_working()
    await agent.call("SendMessage", immediately(message("an answer", taskId=key.task)))
    number = before.last_generation + 1
    run, input_ = await waiting_run(bus, key, number), await last_entry(bus, key)
    assert input_ is not None
    assert (run.input, run.sequence) == (input_.lines[0].decode(), input_.sequence)
