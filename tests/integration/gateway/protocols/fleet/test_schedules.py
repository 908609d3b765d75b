"""Owners schedule messages over HTTP, with the client and on the command line."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest
import pytest_asyncio
from click.testing import CliRunner

from headrace.client import Client
from headrace.jetstream.connection import Bus
from headrace.model import events
from headrace.model.messages import DeadLetter
from headrace.model.schedule import ScheduleFiring, ScheduleFirings, ScheduleKey
from headrace.schedules import Schedules
from headrace.tasks.dead_letters import LetterFilter, Letters, write_letter
from headrace_cli.main import main
from headrace_gateway.protocols.fleet import schedules as fleet_schedules
from tests.integration.gateway.protocols.fleet.conftest import (
    ASK_ONCALL,
    FAQ,
    ONCALL,
    OpenRoleGateway,
)
from tests.support.credentials import ANN, BOB, Person
from tests.support.scripted_fleet import ScriptedFleet

PATH = "/v1/schedules"
HOURLY = {"agent": "ask", "message": "report", "every": "1h"}


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest_asyncio.fixture(loop_scope="module")
async def schedules(http: httpx.AsyncClient) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway whose fleet has no schedules before the test, and none after it."""
    yield http
    for one in (await http.get(PATH)).json()["schedules"]:
        await http.delete(f"{PATH}/{one['name']}")


def _having(firing: ScheduleFiring, created: float, firings: ScheduleFirings) -> ScheduleFirings:
    return firings.of(created).having(firing)


async def recorded(
    bus: Bus, key: ScheduleKey, firing: ScheduleFiring, created: float | None = None
) -> None:
    """Record a firing of a schedule, or of one of its name that was `created` before."""
    found = await Schedules(bus).get(key)
    assert found is not None
    whose = created or found.schedule.created
    await Schedules(bus).record(key, partial(_having, firing, whose))


@pytest.mark.usefixtures("fleet")
async def test_a_schedule_is_stored_shown_paused_resumed_and_deleted(
    schedules: httpx.AsyncClient, bus: Bus
) -> None:
    metadata = {"headrace.generation": 7, "ours": 1}
    body = HOURLY | {"message": [{"text": "report", "metadata": metadata}]}
    stored = (await schedules.put(f"{PATH}/the%20report", json=body)).raise_for_status().json()
    created = datetime.fromisoformat(stored.pop("created"))
    following = datetime.fromisoformat(stored.pop("next"))
    assert timedelta(minutes=59) < following - created < timedelta(minutes=61)
    assert stored == {
        "name": "the report",
        "owner": "anonymous",
        "agent": "ask",
        "message": [{"text": "report", "metadata": {"ours": 1}}],
        "at": None,
        "every": "1h",
        "cron": None,
        "timeZone": None,
        "overlap": "skip",
        "maxQueued": None,
        "jitter": 0.0,
        "endAt": None,
        "maxFirings": None,
        "contextId": None,
        "priority": "normal",
        "answers": None,
        "state": "active",
        "ended": None,
        "began": 0,
        "skipped": 0,
        "waiting": 0,
        "firings": [],
    }
    key = ScheduleKey("default", "anonymous", "the_20report")
    firing = ScheduleFiring(key="a", at="2030-01-01T00:00:00Z", outcome="beginning", task="0-1")
    await recorded(bus, key, firing, 1.0)
    shown = (await schedules.get(f"{PATH}/the%20report")).raise_for_status().json()
    assert (shown["began"], shown["firings"]) == (0, [])
    await recorded(bus, key, firing)
    paused = (await schedules.post(f"{PATH}/the%20report:pause")).raise_for_status().json()
    assert (paused["state"], paused["began"], paused["next"]) == ("paused", 1, None)
    assert [one["task"] for one in paused["firings"]] == ["0-1"]
    resumed = (await schedules.post(f"{PATH}/the%20report:resume")).raise_for_status().json()
    assert resumed["state"] == "active"
    # It fires an hour after it was resumed, and no more at the time before.
    assert datetime.fromisoformat(resumed["next"]) >= following
    (await schedules.delete(f"{PATH}/the%20report")).raise_for_status()
    gone = await schedules.get(f"{PATH}/the%20report")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "schedule_unknown")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"every": None}, "exactly one of at, every and cron is required"),
        ({"cron": "* * * * *"}, "exactly one of at, every and cron is required"),
        ({"every": "1d"}, "every: must be a duration of at least 1s"),
        ({"every": "1.5s"}, "every: must be a duration of at least 1s, in whole seconds"),
        ({"every": f"{'9' * 30}h"}, "every: must be a duration of at least 1s"),
        ({"every": "1h\r\nNats-TTL: 1"}, "every: String should match pattern"),
        ({"every": None, "cron": "0 9 31 2 *"}, "cron: must be a cron expression of five"),
        (
            {"every": None, "cron": "0 9 * * *", "timeZone": "Mars/Base"},
            "timeZone: must be an IANA time zone",
        ),
        ({"timeZone": "Europe/Paris"}, "timeZone is for cron only"),
        ({"every": None, "at": "2030-01-01T00:00:00"}, "at: Input should have timezone info"),
        ({"every": None, "at": "9999-12-31T23:59:59-23:59"}, "at: must be a time of the years"),
        ({"endAt": "0001-01-01T00:00:00+23:59"}, "endAt: must be a time of the years 1 to 9999"),
        ({"overlap": "allow"}, "overlap: Input should be 'skip', 'queue' or 'replace'"),
        ({"maxQueued": 3}, "maxQueued is for overlap queue only"),
        ({"overlap": "queue", "maxQueued": 0}, "maxQueued: Input should be greater than or equal"),
        ({"overlap": "queue", "maxQueued": 101}, "maxQueued: Input should be less than or equal"),
        ({"jitter": -1}, "jitter: Input should be greater than or equal to 0"),
        ({"maxFirings": 0}, "maxFirings: Input should be greater than or equal to 1"),
        ({"answers": {"subject": "$JS.API.x"}}, "answers.subject: must be a NATS subject without"),
        ({"answers": {"reply": True}}, "answers: must name a subject"),
        ({"message": ""}, "message: must not be empty"),
        ({"message": "x" * 65_536}, "the body: must have at most 65536 bytes"),
        ({"message": [{"data": nested(300)}]}, "the body: must not be nested deeper than 90"),
        ({"message": [{"file": "x"}]}, "message: must be a text, or a list of parts"),
        ({"message": [{"text": 7}]}, "message: parts[0] text must be a string"),
        ({"message": [{"data": 7, "mediaType": 7}]}, "parts[0] mediaType must be a string"),
        (
            {"message": [{"text": "x"}, {"text": "x", "url": "headrace-file:a/tasks/b/files/0"}]},
            "message: parts[1] must have exactly one of text, raw, url, data",
        ),
        ({"message": [{"text": "x", "metadata": "m"}]}, "parts[0] metadata must be an object"),
        ({"mesage": "hi"}, "mesage: Extra inputs are not permitted"),
    ],
)
@pytest.mark.usefixtures("fleet")
async def test_a_body_that_breaks_a_rule_is_refused_by_field(
    schedules: httpx.AsyncClient, change: dict[str, Any], message: str
) -> None:
    stated: dict[str, Any] = {**HOURLY, **change}
    body = {name: value for name, value in stated.items() if value is not None}
    answer = await schedules.put(f"{PATH}/report", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert message in answer.json()["error"]["message"]
    assert (await schedules.get(PATH)).json()["schedules"] == []


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 9000000\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n10001\r\n" + " " * 65_537,
    ],
    ids=["stated", "chunked"],
)
@pytest.mark.usefixtures("fleet")
async def test_a_declaration_that_is_too_large_is_refused_before_the_rest_has_come(
    http: httpx.AsyncClient, head: str
) -> None:
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    line = f"PUT {PATH}/report HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{line}{head}".encode())
    # Half of the time for which the gateway waits for the rest of a body.
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 15)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"the body: must have at most 65536 bytes" in answer


@pytest.mark.usefixtures("fleet")
async def test_schedules_are_listed_page_by_page(schedules: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await schedules.put(f"{PATH}/{name}", json=HOURLY)
    first = (await schedules.get(PATH, params={"limit": 2})).json()
    rest = (await schedules.get(PATH, params={"limit": 2, "after": first["next"]})).json()
    assert [one["name"] for one in first["schedules"] + rest["schedules"]] == ["a", "b", "c"]
    assert rest["next"] is None


@pytest.mark.usefixtures("fleet")
async def test_lists_have_the_next_time_of_each_schedule(schedules: httpx.AsyncClient) -> None:
    kinds = {
        "once": {"at": "2030-01-31T10:00:00+01:00"},
        "hourly": {"every": "1h"},
        "yearly": {"cron": "0 9 31 1 *", "timeZone": "Europe/Paris"},
        "over": {"cron": "0 9 31 1 *", "endAt": "2026-01-01T00:00:00Z"},
    }
    for name, terms in kinds.items():
        body = {"agent": "ask", "message": "report", **terms}
        (await schedules.put(f"{PATH}/{name}", json=body)).raise_for_status()
    listed = {one["name"]: one["next"] for one in (await schedules.get(PATH)).json()["schedules"]}
    shown = {name: (await schedules.get(f"{PATH}/{name}")).json()["next"] for name in kinds}
    assert listed == shown
    assert listed["once"] == "2030-01-31T09:00:00Z"
    assert listed["yearly"][4:] == "-01-31T08:00:00Z"
    assert listed["over"] is None


@pytest.mark.usefixtures("fleet")
async def test_an_agent_that_does_not_exist_can_not_be_scheduled(
    schedules: httpx.AsyncClient,
) -> None:
    answer = await schedules.put(f"{PATH}/report", json={**HOURLY, "agent": "nobody"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "agent_unknown")


@pytest.mark.usefixtures("fleet")
async def test_answers_go_to_subjects_of_the_owners_tenant(
    open_role_gateway: OpenRoleGateway,
) -> None:
    async with open_role_gateway(ONCALL, trigger_subjects=["{tenant}.>"]) as gateway:

        async def put(subject: str) -> httpx.Response:
            body = HOURLY | {"answers": {"subject": subject}}
            return await gateway.http.put(f"{PATH}/told", json=body, headers=ANN.bearer)

        refused, stored = await put("other.counted"), await put("acme.counted")
        await gateway.http.delete(f"{PATH}/told", headers=ANN.bearer)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert "may not use subject other.counted" in refused.json()["error"]["message"]
    assert stored.json()["answers"] == {"subject": "acme.counted"}


@pytest.mark.usefixtures("fleet")
async def test_only_operators_see_another_owners_schedule(
    open_role_gateway: OpenRoleGateway,
) -> None:
    other = Person(ANN.tenant, "other")
    async with open_role_gateway(ONCALL, FAQ, other) as gateway:
        http, anns, theirs, operators = gateway.http, ANN.bearer, FAQ.bearer, ONCALL.bearer
        put = await http.put(f"{PATH}/report", json=HOURLY, headers=anns)
        put.raise_for_status()
        owner = put.json()["owner"]
        refused = await http.put(f"{PATH}/report", json=HOURLY, headers=theirs)
        hidden = await http.get(f"{PATH}/report", params={"owner": owner}, headers=other.bearer)
        pages: list[dict[str, Any]] = [{"limit": 1}, {"limit": 1, "owner": owner}]
        others = [(await http.get(PATH, params=p, headers=other.bearer)).json() for p in pages]
        seen = (await http.get(PATH, headers=operators)).json()["schedules"]
        query = {"owner": owner}
        paused = await http.post(f"{PATH}/report:pause", params=query, headers=operators)
        run = await http.post(f"{PATH}/report:run", params=query, headers=operators)
        replaced = await http.put(f"{PATH}/report", json=HOURLY, params=query, headers=operators)
        own = await http.post(f"{PATH}/report:run", params=query, headers=anns)
        deleted = await http.delete(f"{PATH}/report", params=query, headers=operators)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    assert (hidden.status_code, hidden.json()["error"]["code"]) == (404, "schedule_unknown")
    assert others == 2 * [{"schedules": [], "next": None}]
    assert [(one["name"], one["owner"]) for one in seen] == [("report", owner)]
    assert paused.json()["state"] == "paused"
    assert (run.status_code, run.json()["error"]["code"]) == (400, "invalid_input")
    assert replaced.json()["error"]["message"] == "owner: only the owner can replace a schedule"
    assert own.status_code == 200
    assert deleted.status_code == 200


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"to": "2026-01-01T00:00:00Z"}, "from: Field required"),
        ({"from": "2026-01-01", "to": "2026-01-02"}, "from: Input should"),
        (
            {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
            "the body: to must not be before from",
        ),
        (
            {"from": "2026-01-02T00:00:00Z", "to": "9000-01-01T00:00:00Z"},
            "the body: to must not be later than now",
        ),
        (
            {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "overlap": "all"},
            "overlap: Input should be",
        ),
        (
            {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
            "cron: only schedules by cron can be back-filled",
        ),
    ],
)
@pytest.mark.usefixtures("fleet")
async def test_a_back_fill_that_breaks_a_rule_is_refused(
    schedules: httpx.AsyncClient, body: dict[str, Any], message: str
) -> None:
    (await schedules.put(f"{PATH}/hourly", json=HOURLY)).raise_for_status()
    refused = await schedules.post(f"{PATH}/hourly:backfill", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
    assert refused.json()["error"]["message"].startswith(message)


@pytest.mark.usefixtures("fleet", "schedules")
async def test_the_client_and_the_command_line_do_the_same(gateway: str, bus: Bus) -> None:
    async def command(*words: str) -> str:
        arguments = ["schedules", *words, "--url", gateway]
        result = await asyncio.to_thread(CliRunner().invoke, main, arguments)
        assert result.exit_code == 0, result.output
        return result.output

    when = ("--cron", "0 0 * * *", "--answers", "stock.counted")
    ends = ("--max-firings", "9", "--context", "c", "--end-at", "2100-01-01T00:00:00Z")
    created = await command("create", "nightly", "ask", "good night", *when, *ends)
    assert "0 0 * * * (UTC)" in created
    assert re.search(r"NEXT .*T00:00:00Z", created, re.DOTALL)
    async with Client(gateway) as client:
        stored = await client.schedules.get("nightly")
        assert stored["answers"] == {"subject": "stock.counted"}
        stated = {"name": "nightly", "agent": "ask", "message": "good night", "cron": "0 0 * * *"}
        more = {"maxFirings": 9, "contextId": "c", "endAt": "2100-01-01T00:00:00Z"}
        same = await client.schedules.apply({**stated, **more, "answers": stored["answers"]})
        assert same == stored
        assert [one["name"] async for one in client.schedules.list()] == ["nightly"]
        assert (await client.schedules.pause("nightly"))["state"] == "paused"
        assert (await client.schedules.resume("nightly"))["state"] == "active"
        await client.schedules.run_now("nightly")
        january = "2026-01-01T00:00:00Z", "2026-01-03T00:00:00+00:00"
        assert await client.schedules.back_fill("nightly", *january) == 3
    key = ScheduleKey("default", "anonymous", "nightly")
    firing = ScheduleFiring(key="a", at="2030-01-01T00:00:00Z", outcome="beginning", task="0-1")
    await recorded(bus, key, firing)
    shown: dict[str, Any] = {}
    shown["get"] = await command("get", "nightly")
    shown["pause"] = await command("pause", "nightly")
    shown["list"] = await command("list")
    shown["resume"] = await command("resume", "nightly")
    await command("run", "nightly")
    one = "2026-01-01T00:00:00Z"
    filled = await command("backfill", "nightly", "--from", one, "--to", one, "--overlap", "skip")
    assert filled == "nightly fires for 1 times\n"
    assert "0-1" in shown["get"]
    assert "paused" in shown["pause"]
    assert "good night" in shown["list"]
    assert "active" in shown["resume"]
    subject = bus.subjects.firing(*key.tokens)
    info = await bus.js.stream_info(bus.streams.schedules, subjects_filter=subject)
    assert (info.state.subjects or {})[subject] == 2 + 3 + 1
    assert await command("delete", "nightly") == "deleted nightly\n"


async def test_a_list_reveals_nothing_that_its_caller_may_not_know(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleet.working
    async with open_role_gateway(BOB, ASK_ONCALL) as gateway:
        body = {"message": "count", "every": "720h"}
        made = [
            ("a1", "patient"),
            ("b1", "ask"),
            ("c1", "patient"),
            ("d1", "ask"),
            ("e1", "patient"),
        ]
        for name, agent in made:
            put = await gateway.http.put(
                f"{PATH}/{name}", json=body | {"agent": agent}, headers=ANN.bearer
            )
            put.raise_for_status()
        pages, after = list[list[str]](), "0"
        while after != "None":
            query: dict[str, str | int] = {"limit": 1, "after": after}
            page = await gateway.http.get(PATH, params=query, headers=ASK_ONCALL.bearer)
            pages.append([one["name"] for one in page.json()["schedules"]])
            after = str(page.json()["next"])
        assert pages == [["b1"], ["d1"]]
        # Who may see few of many gets them over several requests.
        monkeypatch.setattr(fleet_schedules, "_MOST_READ", 1)
        page = await gateway.http.get(PATH, params={"limit": 3}, headers=ASK_ONCALL.bearer)
        first = [one["name"] for one in page.json()["schedules"]]
        query = {"limit": 3, "after": page.json()["next"]}
        page = await gateway.http.get(PATH, params=query, headers=ASK_ONCALL.bearer)
        assert (first, page.json()) == (["b1", "d1"], {"schedules": [], "next": None})
        for name, _ in made:
            (await gateway.http.delete(f"{PATH}/{name}", headers=ANN.bearer)).raise_for_status()


@pytest.mark.usefixtures("fleet")
async def test_a_schedule_that_cannot_be_read_is_named_beside_the_others(
    schedules: httpx.AsyncClient, bus: Bus
) -> None:
    for name in ("a1", "b1", "c1"):
        (await schedules.put(f"{PATH}/{name}", json=HOURLY)).raise_for_status()
    keys = {name: ScheduleKey("default", "anonymous", name) for name in ("a1", "b1")}
    await Schedules(bus).delete(keys["a1"])
    await bus.js.publish(bus.subjects.schedule(*keys["a1"].tokens), b"{}", timeout=60)
    await bus.js.publish(bus.subjects.fired(*keys["b1"].tokens), b"[]", timeout=60)
    listed = (await schedules.get(PATH)).raise_for_status().json()
    assert [one["name"] for one in listed["schedules"]] == ["c1"]
    unreadable = sorted(one["name"] for one in listed["unreadable"])
    assert unreadable == ["a1", "b1"]
    for name, key in keys.items():
        one = await schedules.get(f"{PATH}/{name}")
        assert (one.status_code, one.json()["error"]["code"]) == (503, "schedule_unreadable")
        assert name in one.json()["error"]["message"]
        (await schedules.delete(f"{PATH}/{name}")).raise_for_status()
        assert await Schedules(bus).get(key) is None


@pytest.mark.usefixtures("fleet")
async def test_dead_letters_of_a_schedule_are_its_owners_since_it_was_made(
    schedules: httpx.AsyncClient, bus: Bus
) -> None:
    (await schedules.put(f"{PATH}/c1", json=HOURLY)).raise_for_status()
    source = "schedule/anonymous/c1"
    letter = DeadLetter(reason="why", subject="s", trigger=source, at=events.now())
    await write_letter(bus, letter, to=("default", "ask"))
    async with Client(str(schedules.base_url)) as client:
        [listed] = [one async for one in client.schedules.dead_letters("c1")]
        assert (await client.schedules.dead_letter("c1", listed["id"]))["reason"] == "why"
        # The same name later, as if its owner had made it now: older letters are not read.
        kept, key = Schedules(bus), ScheduleKey("default", "anonymous", "c1")
        found = await kept.get(key)
        assert found is not None
        await kept.delete(key)
        later = found.schedule.created + 300
        await kept.put(key, found.schedule.model_copy(update={"created": later}))
        assert [one async for one in client.schedules.dead_letters("c1")] == []
    (await schedules.delete(f"{PATH}/c1")).raise_for_status()
    assert [one async for one in Letters(bus).find(LetterFilter("default"))] == []


@pytest.mark.usefixtures("fleet")
async def test_a_schedule_that_is_deleted_takes_its_dead_letters_along(
    schedules: httpx.AsyncClient, bus: Bus
) -> None:
    for name in ("a1", "b1"):
        (await schedules.put(f"{PATH}/{name}", json=HOURLY)).raise_for_status()
        letter = DeadLetter(
            reason="why", subject="s", trigger=f"schedule/anonymous/{name}", at=events.now()
        )
        await write_letter(bus, letter, to=("default", "ask"))
    (await schedules.delete(f"{PATH}/a1")).raise_for_status()
    left = [one.content.trigger async for one in Letters(bus).find(LetterFilter("default"))]
    assert left == ["schedule/anonymous/b1"]
    (await schedules.delete(f"{PATH}/b1")).raise_for_status()
    assert [one async for one in Letters(bus).find(LetterFilter("default"))] == []
