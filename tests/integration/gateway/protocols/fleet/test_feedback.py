"""Feedback on tasks: stored with the log's end, which stays what it is."""

import asyncio

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.log.read import headers_of, last_raw
from headrace.model.entry import FEEDBACK
from headrace.model.task import TaskKey
from tests.integration.gateway.protocols.fleet.conftest import ONCALL, OpenRoleGateway
from tests.support.clients.bindings import Json
from tests.support.credentials import ANN, BOB, Person
from tests.support.event_stream import frames
from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet


async def sent(http: httpx.AsyncClient, agent: str, **headers: str) -> str:
    url = f"/v1/agents/{agent}/message:send"
    answer = await http.post(url, json={"message": message("hello")}, headers=headers)
    task: str = answer.raise_for_status().json()["task"]["id"]
    return task


def path_of(task: str, agent: str = "assistant", rest: str = "/feedback") -> str:
    return f"/v1/agents/{agent}/tasks/{task}{rest}"


async def given(http: httpx.AsyncClient, task: str, **body: str | None) -> Json:
    answer = await http.put(path_of(task), json=body)
    found: Json = answer.raise_for_status().json()["feedback"]
    return found


async def test_feedback_replaces_what_was_given_and_is_exported_with_the_log(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    task = await sent(http, "assistant")
    key = TaskKey("default", "assistant", task)
    before = await last_entry(bus, key)
    task_before = (await http.get(path_of(task, rest=""))).json()
    assert (await http.get(path_of(task))).json() == {"task": task, "feedback": None}
    first = await given(http, task, rating="down", comment="it says “hello” 🙁")
    assert await given(http, task, rating="down", comment="it says “hello” 🙁") == first
    last = await last_entry(bus, key)
    assert before is not None
    assert last is not None
    assert (last.stamp, last.lines) == (before.stamp, before.lines), "the end stays what it is"
    second = await given(http, task, rating="up")
    assert (second["rating"], second["comment"]) == ("up", "")
    assert (await http.get(path_of(task))).json()["feedback"] == second
    log = (await http.get(path_of(task, rest="/log"))).json()
    assert (log["head"], log["feedback"]) == (before.last_generation, second)
    assert (await http.get(path_of(task, rest="/log?limit=1"))).json()["feedback"] is None
    assert await given(http, task, rating=None) is None
    assert (await http.get(path_of(task))).json()["feedback"] is None
    assert (await http.get(path_of(task, rest=""))).json() == task_before
    after = {"after": f"{log['log']}:{log['head'] - 1}"}
    accept = {"Accept": "text/event-stream"}
    async with http.stream("GET", path_of(task, rest="/log"), params=after, headers=accept) as live:
        ids = [one.id async for one in frames(live)]
    assert ids == [f"{log['log']}:{log['head']}"], "a stream has the end once"


async def test_feedback_of_many_at_once_is_all_stored_and_the_last_one_counts(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    task = await sent(http, "assistant")
    key = TaskKey("default", "assistant", task)
    end = await last_entry(bus, key)
    comments = [f"comment {number}" for number in range(5)]
    await asyncio.gather(*(given(http, task, rating="up", comment=one) for one in comments))
    last = await last_raw(bus, key)
    assert end is not None
    assert last is not None
    assert last["seq"] >= end.sequence + len(comments)
    assert (await http.get(path_of(task))).json()["feedback"]["comment"] in headers_of(last)[
        FEEDBACK
    ]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({}, "rating: must be up or down, or null"),
        ({"rating": 5}, "rating: must be up or down, or null"),
        ({"rating": "up", "comment": "x" * 1001}, "comment: must be a text of at most 1000"),
        ({"rating": "up", "comment": ["x"]}, "comment: must be a text of at most 1000"),
        ({"rating": None, "comment": "x"}, "comment: must be empty without a rating"),
        ({"rating": "up", "score": 1}, "score: unknown"),
    ],
)
async def test_feedback_that_breaks_a_rule_is_refused_with_its_field(
    http: httpx.AsyncClient, fleet: ScriptedFleet, body: Json, rule: str
) -> None:
    assert fleet.working
    answer = await http.put(path_of(await sent(http, "assistant")), json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_input")
    assert rule in error["message"]


async def test_a_task_that_waits_takes_no_feedback_and_one_that_is_not_there_is_unknown(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    waiting = await sent(http, "ask")
    answer = await http.put(path_of(waiting, "ask"), json={"rating": "up"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_over")
    answer = await http.put(path_of("nonsense"), json={"rating": "up"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "task_unknown")


async def test_only_its_owner_gives_feedback_and_operators_read_it(
    fleet: ScriptedFleet, open_role_gateway: OpenRoleGateway
) -> None:
    assert fleet.working
    async with open_role_gateway(BOB, ONCALL) as gateway:

        def as_(person: Person) -> dict[str, str]:
            return {"Authorization": f"Bearer {person.token}", "A2A-Version": "1.0"}

        http = gateway.http
        task = await sent(http, "assistant", **as_(ANN))
        stored = await http.put(path_of(task), json={"rating": "up"}, headers=as_(ANN))
        assert stored.raise_for_status().json()["feedback"]["rating"] == "up"
        for person in (BOB, ONCALL):
            refused = await http.put(path_of(task), json={"rating": "down"}, headers=as_(person))
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "task_unknown")
        read = [await http.get(path_of(task), headers=as_(one)) for one in (ANN, BOB, ONCALL)]
        assert [one.status_code for one in read] == [200, 404, 200]
        assert read[2].json()["feedback"] == read[0].json()["feedback"]
