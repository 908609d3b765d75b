"""Messages whose run begins later: on every binding, until it is due or the task is canceled."""

from datetime import UTC, datetime, timedelta

import pytest
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import SCHEDULE
from headrace.log import last_entry
from headrace.model.messages import RunRequest
from headrace.model.task import TaskKey
from headrace.tasks.delayed_runs import start_of
from tests.support.clients.bindings import Json, Talk, message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


def later(text: str, wait: timedelta = timedelta(hours=1)) -> Json:
    at = (datetime.now(UTC) + wait).isoformat()
    return message(text) | {"metadata": {"headrace.startAt": at}}


async def kept(bus: Bus, key: TaskKey, run: int = 1) -> RawStreamMsg | None:
    """Return the delayed run request."""
    subject = bus.subjects.delayed(bus.subjects.run(key, run))
    try:
        return await bus.js.get_last_msg(bus.streams.schedules, subject)
    except NotFoundError:
        return None


async def is_queued(bus: Bus, key: TaskKey) -> bool:
    runs = bus.subjects.runs_of_task(key)
    info = await bus.js.stream_info(bus.streams.runs, subjects_filter=runs)
    return bool(info.state.subjects)


async def test_a_delayed_message_is_a_task_at_once_whose_run_waits_for_its_time(
    talk: Talk, bus: Bus, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    params = later("hello")
    task = (await talk.call("SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    stated = datetime.fromisoformat(params["metadata"]["headrace.startAt"])
    shown = datetime.fromisoformat(task["metadata"]["headrace.startAt"])
    assert abs(shown - stated) < timedelta(milliseconds=1)
    assert (await talk.call("GetTask", {"id": task["id"]}))["id"] == task["id"]
    listed = await talk.call("ListTasks", {"contextId": task["contextId"]})
    assert [one["id"] for one in listed["tasks"]] == [task["id"]]
    key = TaskKey("default", "assistant", task["id"])
    stored = await eventually(lambda: kept(bus, key), "the run is kept")
    assert (stored.headers or {})[SCHEDULE] == f"@at {task['metadata']['headrace.startAt']}"
    request = RunRequest.decode("run", stored.data or b"")
    assert request.context == task["contextId"]
    assert request.input is None, "it may be kept for months, and no deletion rewrites it"
    assert not await is_queued(bus, key)


async def test_a_cancel_before_the_start_ends_the_task_and_removes_the_timer(
    talk: Talk, bus: Bus, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    task = (await talk.call("SendMessage", later("hello")))["task"]
    key = TaskKey("default", "assistant", task["id"])
    await eventually(lambda: kept(bus, key), "the run is kept")
    canceled = await talk.call("CancelTask", {"id": task["id"]})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert await kept(bus, key) is None


async def test_a_message_to_a_task_that_is_not_due_waits_with_it(
    talk: Talk, bus: Bus, fleet: ScriptedFleet
) -> None:
    """Task state does not request its run: `test_upkeep.py`."""
    assert fleet.working
    task = (await talk.call("SendMessage", later("hello")))["task"]
    key = TaskKey("default", "assistant", task["id"])
    await eventually(lambda: kept(bus, key), "the run is kept")
    for text in ("more", "and more"):
        params = message(text)
        params["message"] |= {"taskId": task["id"], "contextId": task["contextId"]}
        params["configuration"] = {"returnImmediately": True}
        joined = (await talk.call("SendMessage", params))["task"]
        assert joined["status"]["state"] == "TASK_STATE_SUBMITTED"
        last = await last_entry(bus, key)
        assert last is not None
        assert start_of(last) == datetime.fromisoformat(task["metadata"]["headrace.startAt"])
    await talk.call("CancelTask", {"id": task["id"]})
    assert await kept(bus, key) is None


async def test_a_follow_up_may_be_delayed(talk: Talk, bus: Bus, fleet: ScriptedFleet) -> None:
    assert fleet.working
    asking = talk.to("ask")
    task = (await asking.call("SendMessage", message()))["task"]
    params = later("Ann")
    params["message"] |= {"taskId": task["id"], "contextId": task["contextId"]}
    answered = (await asking.call("SendMessage", params))["task"]
    assert answered["status"]["state"] == "TASK_STATE_SUBMITTED"
    run = int(answered["metadata"]["headrace.generation"])
    key = TaskKey("default", "ask", task["id"])
    await eventually(lambda: kept(bus, key, run), "the run is kept")


@pytest.mark.parametrize("wait", [timedelta(seconds=-1), timedelta(days=-100_000)])
async def test_a_message_for_a_time_in_the_past_begins_at_once(talk: Talk, wait: timedelta) -> None:
    task = (await talk.call("SendMessage", later("hello", wait)))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "headrace.startAt" not in task["metadata"]


async def test_the_start_deadline_counts_from_the_start(talk: Talk) -> None:
    params = later("hello")
    params["metadata"]["headrace.startWithin"] = 30
    metadata = (await talk.call("SendMessage", params))["task"]["metadata"]
    start, deadline = (
        datetime.fromisoformat(metadata[name]) for name in ("headrace.startAt", "headrace.startBy")
    )
    assert deadline - start == timedelta(seconds=30)
