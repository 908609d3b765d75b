"""A task's log, page by page and live."""

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.model.entry import Stamp
from headrace.model.events import status_update
from headrace.model.task import WORKING, TaskKey, mint_log_id, mint_task_id
from tests.support.clients.bindings import Json
from tests.support.event_stream import frames
from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet


def log_of(agent: str, task: str) -> str:
    return f"/v1/agents/{agent}/tasks/{task}/log"


async def sent(http: httpx.AsyncClient, agent: str) -> str:
    """Send a message; return the task's id without waiting for its end."""
    body = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    answer = await http.post(f"/v1/agents/{agent}/message:send", json=body)
    task: str = answer.raise_for_status().json()["task"]["id"]
    return task


async def ended(http: httpx.AsyncClient, agent: str = "assistant") -> str:
    """Send a message, and wait for the end of its run."""
    body = {"message": message("hello")}
    answer = await http.post(f"/v1/agents/{agent}/message:send", json=body)
    task: str = answer.raise_for_status().json()["task"]["id"]
    return task


async def page(http: httpx.AsyncClient, path: str) -> Json:
    found: Json = (await http.get(path)).raise_for_status().json()
    return found


async def test_a_page_has_each_event_with_what_its_entry_states(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    task = await ended(http)
    found = await page(http, log_of("assistant", task))
    assert {name: found[name] for name in ("task", "first", "head", "state", "next")} == {
        "task": task,
        "first": 1,
        "head": 4,
        "state": "TASK_STATE_COMPLETED",
        "next": None,
    }
    rows = found["events"]
    assert [(one["generation"], one["type"]) for one in rows] == [
        (1, "task"),
        (2, "statusUpdate"),
        (3, "artifactUpdate"),
        (4, "statusUpdate"),
    ]
    assert [one["cursor"] for one in rows] == [f"{found['log']}:{at}" for at in range(1, 5)]
    assert [(one["writer"]["kind"], one["attempt"]) for one in rows] == [
        ("gateway", 0),
        *[("worker", 1)] * 3,
    ]
    assert [one["state"].rpartition("_")[2] for one in rows] == [
        "SUBMITTED",
        "WORKING",
        "WORKING",
        "COMPLETED",
    ]
    assert {one["run"] for one in rows} == {1}
    assert [one.get("owner") for one in rows] == ["anonymous", None, None, None]
    assert rows[2]["event"]["artifactUpdate"]["artifact"]["parts"] == [{"text": "hello"}]
    assert rows[0]["time"] < rows[3]["time"]


async def test_pages_continue_after_a_cursor_or_a_generation(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    path = log_of("assistant", await ended(http))
    whole = (await page(http, path))["events"]
    first = await page(http, f"{path}?limit=3")
    rest = await page(http, f"{path}?limit=3&after={first['next']}")
    assert (first["events"] + rest["events"], rest["next"]) == (whole, None)
    assert (await page(http, f"{path}?after=2"))["events"] == whole[2:]
    assert (await page(http, f"{path}?after=9"))["events"] == []


async def test_a_log_is_followed_to_the_end_of_its_task(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    task = await sent(http, "patient")
    path, events = log_of("patient", task), {"Accept": "text/event-stream"}
    async with http.stream("GET", f"{path}?after=1", headers=events) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = frames(response)
        seen = [await anext(stream), await anext(stream)]
        fleet.runs[0].go_on.set()
        seen += [one async for one in stream]
    whole = (await page(http, path))["events"]
    assert [frame.json for frame in seen] == whole[1:]
    assert [frame.id for frame in seen] == [row["cursor"] for row in whole[1:]]
    again = await http.get(path, headers=events | {"Last-Event-ID": seen[-1].id})
    assert again.status_code == 204


async def test_a_log_is_followed_over_a_question(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    task = await ended(http, "ask")
    path = log_of("ask", task)
    async with http.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
        stream = frames(response)
        before = [await anext(stream) for _ in range(3)]
        answer = {"message": message("Ann", taskId=task)}
        (await http.post("/v1/agents/ask/message:send", json=answer)).raise_for_status()
        after = [frame.json async for frame in stream]
    assert before[-1].json["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert [row["run"] for row in after] == [4, 4, 4]
    assert after[-1]["state"] == "TASK_STATE_COMPLETED"


async def test_a_log_that_lost_its_beginning_begins_later(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    key, log = TaskKey("default", "assistant", mint_task_id(2)), mint_log_id()
    writer = LogWriter(bus, key)
    for generation in range(1, 5):
        stamp = Stamp(log, generation, "w", WORKING, 1, 1, owner="anonymous")
        await writer.append([status_update(key.task, "c", WORKING)], stamp)
    subject = bus.subjects.event(key)
    await bus.js.purge_stream(bus.streams.of_shard(key.shard), subject=subject, keep=2)
    path = log_of("assistant", key.task)
    found = await page(http, path)
    assert (found["first"], [row["generation"] for row in found["events"]]) == (3, [3, 4])
    lost = await http.get(f"{path}?after=1")
    assert (lost.status_code, lost.json()["error"]["code"]) == (404, "log_lost")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("limit=0", "limit: must be a whole number from 1 to 1000"),
        ("limit=9999", "limit: must be a whole number from 1 to 1000"),
        ("after=-1", "after: must be a generation, or a cursor <log>:<generation>"),
    ],
)
async def test_a_refusal_names_the_parameter_and_its_rule(
    http: httpx.AsyncClient, fleet: ScriptedFleet, query: str, problem: str
) -> None:
    assert fleet.working
    answer = await http.get(f"{log_of('assistant', await ended(http))}?{query}")
    error = {"code": "invalid_input", "message": problem}
    assert (answer.status_code, answer.json()["error"]) == (400, error)


async def test_the_cursor_of_another_log_is_a_loss(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    answer = await http.get(f"{log_of('assistant', await ended(http))}?after=zzzzzzzz:1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "log_lost")


async def test_a_log_that_there_is_not_is_not_found(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    answer = await http.get(log_of("assistant", "0-" + "a" * 32))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "task_unknown")
