"""Two clients, or two tabs of one, begin runs in a thread at a time."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from headrace.model.events import WAIT_FOR, Json
from tests.support.agui.runs import path, run, run_input, run_of, running
from tests.support.event_stream import Frame, frames
from tests.support.scripted_fleet import Run, ScriptedFleet
from tests.support.waiting import eventually


async def read(
    http: httpx.AsyncClient, agent: str, body: Json, begun: asyncio.Event
) -> list[Frame]:
    """Return all frames of a run, and say when the first word has come."""
    received: list[Frame] = []
    async with running(http, agent, body) as response:
        async for frame in frames(response):
            received.append(frame)
            if frame.json.get("delta"):
                begun.set()
    return received


async def runs(fleet: ScriptedFleet, number: int) -> list[Run]:
    """Return the runs that the fleet works on, once there are so many."""

    async def there_are() -> bool:
        return len(fleet.runs) == number

    await eventually(there_are, f"the fleet works on {number}")
    return fleet.runs


async def test_an_agent_that_rejects_takes_a_run_only_when_the_last_is_over(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    first, begun = run_input(), asyncio.Event()
    reading = asyncio.create_task(read(http, "refusing", first, begun))
    await begun.wait()
    second = run_input(threadId=first["threadId"])
    answer = await http.post(path("refusing"), json=second)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "thread_busy")
    assert first["threadId"] in answer.json()["error"]["message"]
    (await run_of(fleet)).go_on.set()
    assert (await reading)[-1].json["type"] == "RUN_FINISHED"
    began = asyncio.Event()
    # A refused run was none, so its id is free for another one.
    second["state"] = {"is": "another"}
    reading = asyncio.create_task(read(http, "refusing", second, began))
    await began.wait()
    (await runs(fleet, 2))[1].go_on.set()
    assert (await reading)[-1].json["runId"] == second["runId"]


async def test_an_agent_that_is_interrupted_gives_up_the_run_at_work(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    first, begun = run_input(), asyncio.Event()
    reading = asyncio.create_task(read(http, "yielding", first, begun))
    await begun.wait()
    began = asyncio.Event()
    second = run_input(threadId=first["threadId"])
    newer = asyncio.create_task(read(http, "yielding", second, began))
    assert (await reading)[-1].json["outcome"] == {"type": "cancelled"}
    (await runs(fleet, 2))[1].go_on.set()
    last = (await newer)[-1].json
    assert (last["type"], last["runId"]) == ("RUN_FINISHED", second["runId"])
    assert "outcome" not in last


async def test_another_agents_runs_and_threads_are_in_nobodys_way(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    first, begun = run_input(), asyncio.Event()
    reading = asyncio.create_task(read(http, "refusing", first, begun))
    await begun.wait()
    for agent, more in (("yielding", {"threadId": first["threadId"]}), ("refusing", {})):
        began = asyncio.Event()
        other = asyncio.create_task(read(http, agent, run_input(**more), began))
        await began.wait()
        fleet.runs[-1].go_on.set()
        assert "outcome" not in (await other)[-1].json
    fleet.runs[0].go_on.set()
    assert "outcome" not in (await reading)[-1].json


async def begun_by_a2a(
    http: httpx.AsyncClient, path: str, *, key: str = "", context: str = ""
) -> Json:
    """Return a task of the agent that refuses, which A2A's request at `path` begins."""
    headers = {"A2A-Version": "1.0"} | ({"Idempotency-Key": key} if key else {})
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body: Json = {"message": message | ({"contextId": context} if context else {})}
    if path.endswith("send"):
        body["configuration"] = {"returnImmediately": True}
    answer = await http.post(f"/v1/agents/refusing/{path}", json=body, headers=headers)
    task: Json = answer.json()
    inner: Json = task.get("task", task)
    return inner


@pytest.mark.parametrize("how", ["new", "named", "keyed", "forked"])
async def test_tasks_of_a2a_are_in_the_way_in_their_context(
    http: httpx.AsyncClient, fleet: ScriptedFleet, how: str
) -> None:
    name = secrets.token_hex(8)
    key, context = name if how == "keyed" else "", f"c/ä {name}" if how == "named" else ""
    task, number = await begun_by_a2a(http, "message:send", key=key, context=context), 1
    if how == "forked":
        (await run_of(fleet)).go_on.set()
        task, number = await begun_by_a2a(http, f"tasks/{task['id']}:fork"), 2
    last = (await runs(fleet, number))[-1]
    assert last.key.task == task["id"]
    body = run_input(threadId=task["contextId"])
    answer = await http.post(path("refusing"), json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "thread_busy")
    last.go_on.set()

    async def is_taken() -> bool:
        async with running(http, "refusing", body) as response:
            return response.status_code == 200

    await eventually(is_taken, "the task is over")


@pytest.mark.parametrize("agent", ["refusing", "yielding", "patient"])
async def test_a_run_that_begins_later_is_in_nobodys_way(
    http: httpx.AsyncClient, fleet: ScriptedFleet, agent: str
) -> None:
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    later = run_input(forwardedProps={"headrace": {"startAt": at}})
    thread = later["threadId"]
    async with running(http, agent, later):
        reading = asyncio.create_task(run(http, agent, run_input(threadId=thread)))
        [begun] = await runs(fleet, 1)
        assert WAIT_FOR not in begun.metadata
        begun.go_on.set()
        assert "outcome" not in (await reading)[-1].json
    answer = await http.get(f"/v1/agents/{agent}/tasks", params={"contextId": thread})
    states = {task["status"]["state"] for task in answer.json()["tasks"]}
    assert states == {"TASK_STATE_COMPLETED", "TASK_STATE_SUBMITTED"}


async def test_a_run_of_an_agent_that_enqueues_names_the_runs_it_is_to_wait_for(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    """Workers mind it: `tests/contract/workers/test_turn_taking.py`."""
    thread, reading = run_input()["threadId"], []
    for _ in range(3):
        begun = asyncio.Event()
        body = run_input(threadId=thread)
        reading.append(asyncio.create_task(read(http, "patient", body, begun)))
        await begun.wait()
    first, second, third = await runs(fleet, 3)
    assert WAIT_FOR not in first.metadata
    assert second.metadata[WAIT_FOR] == [first.key.task]
    assert sorted(third.metadata[WAIT_FOR]) == sorted([first.key.task, second.key.task])
    for one in fleet.runs:
        one.go_on.set()
    for received in await asyncio.gather(*reading):
        assert [f.json["delta"] for f in received if "delta" in f.json] == ["a", "b"]
        assert received[-1].json["type"] == "RUN_FINISHED"
    begun = asyncio.Event()
    last = asyncio.create_task(read(http, "patient", run_input(threadId=thread), begun))
    await begun.wait()
    assert WAIT_FOR not in fleet.runs[-1].metadata
    fleet.runs[-1].go_on.set()
    await last
