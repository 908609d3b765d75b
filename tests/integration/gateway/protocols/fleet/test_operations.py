"""What operators do to tasks and dead letters over HTTP."""

from base64 import b64encode

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model import events
from headrace.model.messages import DeadLetter, RunRequest
from headrace.model.task import TaskKey, mint_task_id
from headrace.tasks.dead_letters import (
    LetterFilter,
    LetterPage,
    Letters,
    drop_letters_of,
    write_letter,
)
from tests.integration.gateway.protocols.fleet.conftest import (
    ONCALL,
    OPERATOR,
    RELEASER,
    OpenRoleGateway,
)
from tests.support.clients.bindings import Json
from tests.support.credentials import ANN
from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet

LETTERS = "/v1/dead-letters"


async def asked(http: httpx.AsyncClient) -> Json:
    """Begin a task that waits for its user."""
    answer = await http.post("/v1/agents/ask/message:send", json={"message": message("hello")})
    task: Json = answer.raise_for_status().json()["task"]
    return task


def failing(task: str) -> str:
    return f"/v1/agents/ask/tasks/{task}:fail"


async def stored(bus: Bus, key: TaskKey, reason: str = "given up", body: bytes = b"{}") -> int:
    """Store a letter about the task's first run; return its number."""
    letter = DeadLetter(
        reason=reason,
        subject=bus.subjects.run(key, 1),
        task=key.task,
        body=b64encode(body).decode(),
        at=events.now(),
    )
    acknowledged = await bus.js.publish(bus.subjects.dead(key.tenant, key.agent), letter.encode())
    return acknowledged.seq


def some_key(tenant: str = "default", agent: str = "ask") -> TaskKey:
    return TaskKey(tenant, agent, mint_task_id(0))


async def listed(http: httpx.AsyncClient, **query: str | int) -> Json:
    found: Json = (await http.get(LETTERS, params=query)).raise_for_status().json()
    return found


async def test_a_task_is_failed_with_a_reason_once(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    task = (await asked(http))["id"]
    answer = await http.post(failing(task), json={"reason": "the shop is closed"})
    assert answer.raise_for_status().json() == {"task": task, "state": "TASK_STATE_FAILED"}
    found = (await http.get(f"/v1/agents/ask/tasks/{task}")).json()["status"]
    assert found["state"] == "TASK_STATE_FAILED"
    assert [part["text"] for part in found["message"]["parts"]] == ["the shop is closed"]
    again = await http.post(failing(task))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_over")


async def test_letters_are_listed_by_page_and_shown(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    keys = [some_key(), some_key(agent="assistant"), some_key()]
    numbers = [await stored(bus, key) for key in keys]
    await stored(bus, some_key(tenant="other"))
    first = await listed(http, agent="ask", after=numbers[0] - 1, limit=1)
    [row] = first["letters"]
    assert (row["id"], row["kind"], row["task"]) == (numbers[0], "run", keys[0].task)
    assert first["next"] == numbers[0]
    rest = await listed(http, agent="ask", after=first["next"])
    assert ([one["id"] for one in rest["letters"]], rest["next"]) == ([numbers[2]], None)
    shown = (await http.get(f"{LETTERS}/{numbers[0]}")).raise_for_status().json()
    assert (shown["body"], shown["subject"]) == ("{}", bus.subjects.run(keys[0], 1))


async def test_a_page_ends_where_enough_letters_were_read(bus: Bus, fleet: ScriptedFleet) -> None:
    assert fleet.working
    agent = f"agent-{mint_task_id(0)[2:]}"
    numbers = [await stored(bus, some_key(agent=agent)) for _ in range(3)]
    nothing = LetterFilter("default", agent, task="another")
    page = await Letters(bus).page(nothing, 0, limit=10, most_read=2)
    assert page == LetterPage([], numbers[2])
    assert await Letters(bus).page(nothing, numbers[2], limit=10) == LetterPage([], None)
    page = await Letters(bus).page(nothing, 0, limit=10, most_bytes=8)
    assert page == LetterPage([], numbers[2])


async def test_a_triggers_letters_are_dropped_at_once_and_no_others_are_read(
    bus: Bus, fleet: ScriptedFleet
) -> None:
    """Each letter that is dropped by itself is overwritten on disk, which takes tens of ms."""
    assert fleet.working
    for number in range(40):
        source = f"trigger/ann/{'kept' if number % 2 else 'dropped'}"
        letter = DeadLetter(reason="why", subject="s", trigger=source, at="")
        await write_letter(bus, letter, to=("many", "ask" if number % 3 else "other"))
    await bus.connection.flush()
    sent = bus.connection.stats["out_msgs"]
    await drop_letters_of(bus, "many", "trigger/ann/dropped")
    assert bus.connection.stats["out_msgs"] - sent < 5
    left = [one async for one in Letters(bus).find(LetterFilter("many"))]
    assert {one.content.trigger for one in left} == {"trigger/ann/kept"}
    assert len(left) == 20
    others = [one async for one in Letters(bus).find(LetterFilter("many", "other"))]
    assert {one.agent for one in others} == {"other"}
    assert len(others) == len([one for one in left if one.agent == "other"]) > 0


async def test_letters_of_events_are_found_by_agent_and_task(
    bus: Bus, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    task = mint_task_id(0)
    letter = DeadLetter(reason="why", subject="s", trigger="trigger/ann/t", task=task, at="")
    await write_letter(bus, letter, to=("some", "ask"))
    for kind in ("event", None):
        found = [one.task async for one in Letters(bus).find(LetterFilter("some", "ask", kind))]
        assert found == [task]
    assert [one async for one in Letters(bus).find(LetterFilter("some", "echo", "event"))] == []
    [by_task] = [one async for one in Letters(bus).find(LetterFilter("some", "ask", "event", task))]
    assert by_task.agent == "ask"


async def test_letters_of_another_tenant_are_unknown(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    number = await stored(bus, some_key(tenant="other"))
    assert number not in [one["id"] for one in (await listed(http, limit=1000))["letters"]]
    shown = await http.get(f"{LETTERS}/{number}")
    assert (shown.status_code, shown.json()["error"]["code"]) == (404, "letter_unknown")
    dropped = await http.post(f"{LETTERS}:drop", json={"ids": [number]})
    [result] = dropped.raise_for_status().json()["results"]
    assert result["error"]["code"] == "letter_unknown"
    assert await bus.js.get_msg(bus.streams.dead, number)


@pytest.mark.parametrize("number", ["0", "x", "9" * 19, "9" * 30, "9" * 5000])
async def test_a_number_that_no_letter_can_have_is_refused(
    http: httpx.AsyncClient, number: str
) -> None:
    answer = await http.get(f"{LETTERS}/{number}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")


async def test_a_failed_run_is_retried_and_its_letter_dropped(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    task = await asked(http)
    (await http.post(failing(task["id"]))).raise_for_status()
    key = TaskKey("default", "ask", task["id"])
    log = (await http.get(f"/v1/agents/ask/tasks/{key.task}/log")).json()["log"]
    request = RunRequest(log=log, context=task["contextId"], owner="anonymous")
    number = await stored(bus, key, body=request.encode())
    body = {"ids": [number, number, number + 1000]}
    answer = await http.post(f"{LETTERS}:retry", json=body)
    retried, unknown = answer.raise_for_status().json()["results"]
    assert retried["outcome"] == f"retried as task {retried['task']}"
    assert unknown["error"]["code"] == "letter_unknown"
    new = (await http.get(f"/v1/agents/ask/tasks/{retried['task']}")).raise_for_status().json()
    assert new["contextId"] == task["contextId"]
    assert (await http.get(f"{LETTERS}/{number}")).status_code == 404


async def test_what_cannot_be_retried_stays_until_it_is_dropped(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus
) -> None:
    assert fleet.working
    number = await stored(bus, some_key())
    refused = await http.post(f"{LETTERS}:retry", json={"ids": [number]})
    assert refused.json()["results"][0]["error"]["code"] == "not_retryable"
    assert (await http.get(f"{LETTERS}/{number}")).status_code == 200
    dropped = await http.post(f"{LETTERS}:drop", json={"ids": [number]})
    assert dropped.json() == {"results": [{"id": number, "outcome": "dropped", "task": None}]}
    assert (await http.get(f"{LETTERS}/{number}")).status_code == 404


@pytest.mark.parametrize(
    "subject", ["{0}.run.default.ask", "run.default.ask.0-1.1", "{0}.push.0.default.ask"]
)
async def test_a_letter_that_no_stream_would_take_back_is_refused(
    http: httpx.AsyncClient, fleet: ScriptedFleet, bus: Bus, subject: str
) -> None:
    assert fleet.working
    subject = subject.format(bus.subjects.prefix)
    letter = DeadLetter(reason="made up", subject=subject, at=events.now())
    stored = await bus.js.publish(bus.subjects.dead("default", "ask"), letter.encode())
    answer = await http.post(f"{LETTERS}:retry", json={"ids": [stored.seq]})
    [result] = answer.raise_for_status().json()["results"]
    assert result["error"]["code"] == "not_retryable"
    assert result["error"]["message"].startswith(f"message on {subject}: ")
    assert (await http.get(f"{LETTERS}/{stored.seq}")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "problem"),
    [
        ("GET", f"{LETTERS}?kind=x", None, "kind: must be one of run, "),
        ("GET", f"{LETTERS}?limit=0", None, "limit: must be a whole number from 1 to 1000"),
        ("POST", f"{LETTERS}:drop", {"ids": []}, "ids: must be a list of 1 to 100 numbers"),
        ("POST", f"{LETTERS}:retry", {"ids": [True]}, "ids: must be positive whole numbers"),
        ("POST", failing("x"), {"reason": ""}, "reason: must be a text of 1 to 1000 characters"),
    ],
)
async def test_a_refusal_names_the_field_and_its_rule(  # noqa: PLR0917 - the cases
    http: httpx.AsyncClient,
    fleet: ScriptedFleet,
    method: str,
    path: str,
    body: Json | None,
    problem: str,
) -> None:
    assert fleet.working
    answer = await http.request(method, path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_input")
    assert error["message"].startswith(problem)


async def test_only_operators_of_all_tenants_route_agents(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    path = "/v1/fleet/agents/ask"
    requests: list[tuple[str, str, Json | None]] = [
        ("GET", f"{path}/versions", None),
        ("POST", f"{path}:route", {"version": "9"}),
        ("POST", f"{path}:rollback", {}),
        ("POST", f"{path}:retire", {"version": "9"}),
    ]
    async with open_role_gateway(OPERATOR, RELEASER) as gateway:
        found = [
            (await gateway.http.request(method, url, json=body, headers=one.bearer)).status_code
            for one in (OPERATOR, RELEASER)
            for method, url, body in requests
        ]
    assert found == [403, 403, 403, 403, 200, 404, 409, 404]


async def test_only_operators_may_and_what_they_do_is_audited(
    open_role_gateway: OpenRoleGateway,
    fleet: ScriptedFleet,
    bus: Bus,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert fleet.working
    key = some_key(tenant="acme")
    number = await stored(bus, key)
    requests = [
        ("GET", LETTERS, None),
        ("GET", f"{LETTERS}/{number}", None),
        ("POST", f"{LETTERS}:retry", {"ids": [number]}),
        ("POST", failing(key.task), {"reason": "no"}),
        ("POST", f"{LETTERS}:drop", {"ids": [number]}),
    ]
    async with open_role_gateway(ONCALL, OPERATOR) as gateway:

        async def statuses(headers: dict[str, str]) -> list[int]:
            answers = [
                await gateway.http.request(method, path, json=body, headers=headers)
                for method, path, body in requests
            ]
            return [one.status_code for one in answers]

        assert await statuses({}) == [401] * 5
        assert await statuses(ANN.bearer) == [403] * 5
        assert await statuses(ONCALL.bearer) == [403] * 5
        with caplog.at_level("INFO", "headrace.audit"):
            assert await statuses(OPERATOR.bearer) == [200, 200, 200, 404, 200]
    logged = [one.getMessage() for one in caplog.records if one.name == "headrace.audit"]
    who = "tenant=acme owner=operator role=operator operation"
    what = f"agent=ask task={key.task} target_owner=- outcome=permitted"
    assert f"{who}=DropDeadLetter {what}" in logged
    assert f"{who}=FailTask {what}" in logged
