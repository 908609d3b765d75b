"""The fleet's state, to operators and to others, once and live."""

import asyncio
import logging
from dataclasses import replace

import httpx
import pytest

from tests.integration.gateway.protocols.fleet.conftest import (
    FAQ,
    ONCALL,
    OPERATOR,
    OpenRoleGateway,
)
from tests.support.clients.bindings import Json
from tests.support.credentials import ANN, Person
from tests.support.event_stream import frames
from tests.support.plain_a2a import message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

PATH = "/v1/fleet"
EVENTS = {"Accept": "text/event-stream"}


class Heir(Person):
    """Somebody who has been given the operator's token."""

    @property
    def token(self) -> str:
        return OPERATOR.token


HEIR = Heir("acme", "heir", ("operator",))


async def seen(http: httpx.AsyncClient) -> Json:
    found: Json = (await http.get(PATH)).raise_for_status().json()
    return found


async def with_assistant(http: httpx.AsyncClient, fleet: ScriptedFleet) -> Json:
    """Return the state in which the assistant has its worker, which does not renew itself."""
    assert fleet.working
    await fleet.announcer.renew("assistant")

    async def is_there() -> Json | None:
        found = await seen(http)
        agents = {one["name"]: one for one in found["agents"]}
        return found if agents["assistant"]["available"] else None

    return await eventually(is_there, "the assistant has its worker")


async def first_state(http: httpx.AsyncClient) -> Json:
    """Watch until the whole state comes."""
    async with http.stream("GET", PATH, headers=EVENTS) as response:
        return (await anext(frames(response))).json


async def waiting(http: httpx.AsyncClient, fleet: ScriptedFleet) -> None:
    """Send a message that no worker takes."""
    fleet.working = False
    body = {"message": message("hello"), "configuration": {"returnImmediately": True}}
    (await http.post("/v1/agents/assistant/message:send", json=body)).raise_for_status()


async def test_the_fleet_is_shown_with_its_agents_workers_streams_and_task_state(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    found = await with_assistant(http, fleet)
    agents = {one["name"]: one for one in found["agents"]}
    assistant = agents["assistant"]
    assert (assistant["available"], assistant["workers"]) == (True, ["scripted"])
    card = (await http.get(assistant["card"])).raise_for_status().json()
    assert card["description"] == assistant["description"]
    [worker] = found["workers"]
    assert worker["id"] == "scripted"
    assert "assistant" in worker["agents"]
    assert worker["heartbeatSeconds"] >= 0
    streams = {one["name"].rpartition("gateway")[2][8:]: one for one in found["streams"]}
    assert {"EVENTS", "RUNS", "DEAD"} < streams.keys()
    [one] = found["ranges"]
    assert (one["position"], one["lag"]) == (one["head"], 0)
    assert found["gateway"]["openRequests"] == 1
    assert set(found["rates"]) == {"entriesPerSecond", "runsPerSecond"}


async def test_a_queue_shows_what_waits_and_for_how_long(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    await waiting(http, fleet)

    async def waits() -> bool:
        queues = {one["agent"]: one for one in (await seen(http))["queues"]}
        one = queues.get("assistant", {})
        return bool(one.get("waiting") == 1 and one["oldestSeconds"] >= 0)

    await eventually(waits, "a run waits")


async def test_prometheus_sees_what_waits_and_how_full_the_streams_are(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    await with_assistant(http, fleet)
    await waiting(http, fleet)
    samples = dict[str, float]()

    async def waits() -> bool:
        page = (await http.get("/metrics")).raise_for_status().text
        pairs = (line.rpartition(" ") for line in page.splitlines() if line[:1] != "#")
        samples.update({name: float(value) for name, _, value in pairs})
        # Other tests on this fleet may have left runs that wait.
        return samples.get('headrace_runs_waiting{agent="assistant",version=""}', 0) >= 1

    await eventually(waits, "a run waits")
    assert samples['headrace_oldest_run_seconds{agent="assistant",version=""}'] >= 0
    assert samples['headrace_agent_available{agent="assistant"}'] == 1
    waits_for = {name: n for name, n in samples.items() if "headrace_runs_waiting{" in name}
    assert 0 in waits_for.values(), "agents without waiting runs are at zero"
    filled = {name for name in samples if name.startswith("headrace_stream_bytes{")}
    found = [kind for kind in ("EVENTS", "MEMORY") if any(kind in name for name in filled)]
    assert found == ["EVENTS", "MEMORY"]


async def test_changes_follow_the_whole_state(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    async with http.stream("GET", PATH, headers=EVENTS) as response:
        stream = frames(response)
        whole = await anext(stream)
        assert whole.name == "fleet"
        assert {"agents", "queues", "streams"} < whole.json.keys()
        await waiting(http, fleet)
        change = await anext(stream)
        while not any(queue["waiting"] for queue in change.json.get("queues", [])):
            change = await anext(stream)
    assert change.name == "change"
    assert "agents" not in change.json, "what has not changed is not sent again"


async def test_a_first_watcher_gets_the_present_state(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    left = (await first_state(http))["at"]

    async def later() -> bool:
        now = await seen(http)
        return bool(now["at"] > left and not now["gateway"]["openStreams"])

    await eventually(later, "the stream has ended, and its last sample is old")
    assert (await first_state(http))["at"] > left


async def test_others_see_the_agents_that_they_may_use(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet, caplog: pytest.LogCaptureFixture
) -> None:
    assert fleet.working
    found = dict[str, Json]()
    async with open_role_gateway(FAQ, ONCALL, OPERATOR) as gateway:
        assert (await gateway.http.get(PATH)).status_code == 401
        with caplog.at_level(logging.INFO, "headrace.audit"):
            for person in (ANN, FAQ, ONCALL, OPERATOR):
                answer = await gateway.http.get(PATH, headers=person.bearer)
                found[person.owner] = answer.raise_for_status().json()
    names = {who: [one["name"] for one in output["agents"]] for who, output in found.items()}
    assert names["faq"] == ["assistant"]
    assert set(names[ANN.owner]) == set(names["operator"]) > {"assistant"}
    assert found[ANN.owner].keys() == found["on-call"].keys() == {"at", "agents", "operations"}
    assert "workers" not in found["faq"]["agents"][0]
    assert found["operator"].keys() > {"workers", "queues", "streams"}
    assert found["operator"]["queues"] == [], "those of the operator's tenant"
    audited = [one.getMessage() for one in caplog.records if one.name == "headrace.audit"]
    who = "tenant=acme owner=operator role=operator"
    assert audited == [f"{who} operation=GetFleet agent=* task=- target_owner=- outcome=permitted"]


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        pytest.param((), "unknown credentials", id="withdrawn"),
        pytest.param((replace(OPERATOR, roles=("on-call",)),), "permissions", id="changed"),
        pytest.param((HEIR,), "belong to another owner", id="passed on"),
    ],
)
async def test_a_stream_ends_with_the_permission_for_it(
    open_role_gateway: OpenRoleGateway,
    fleet: ScriptedFleet,
    left: tuple[Person, ...],
    reason: str,
) -> None:
    assert fleet.working
    async with (
        open_role_gateway(OPERATOR) as gateway,
        gateway.http.stream("GET", PATH, headers=EVENTS | OPERATOR.bearer) as response,
        asyncio.timeout(60),
    ):
        lines = response.aiter_lines()
        assert await anext(lines) == "event: fleet"
        gateway.know(*left)
        comments = [line async for line in lines if line.startswith(":")]
    assert reason in comments[-1]
