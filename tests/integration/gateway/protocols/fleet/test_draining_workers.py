"""Operators drain workers over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from headrace.directory import Announcer
from headrace.jetstream.connection import Bus
from headrace.model.messages import Draining
from tests.integration.gateway.protocols.fleet.conftest import (
    DEPLOYER,
    ONCALL,
    OPERATOR,
    RELEASER,
    OpenRoleGateway,
)
from tests.support.credentials import ANN
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually

DRAIN = "/v1/workers/scripted:drain"


@pytest_asyncio.fixture(loop_scope="module")
async def drained(bus: Bus, fleet: ScriptedFleet) -> AsyncIterator[list[str]]:
    """The subjects of the requests to drain; two runs are active."""
    assert fleet.working
    requests = list[str]()

    async def answer(msg: Msg) -> None:
        requests.append(msg.subject)
        await bus.publish(msg.reply, Draining(runs=2).encode())

    subscription = await bus.subscribe(bus.subjects.drain("*", "scripted"), answer)
    await bus.connection.flush()  # The gateway asks over another connection.
    yield requests
    await subscription.unsubscribe()


async def test_a_worker_is_drained_on_request(http: httpx.AsyncClient, drained: list[str]) -> None:
    answer = await http.post(DRAIN)
    agent = drained[0].split(".")[-2]
    expected = {"worker": "scripted", "agent": agent, "runs": 2}
    assert answer.raise_for_status().json() == expected
    assert len(drained) == 1


@pytest.mark.usefixtures("fleet")
async def test_a_worker_that_has_left_is_found_by_its_agent_and_while_it_repeats_that(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    async def answer(msg: Msg) -> None:
        await bus.publish(msg.reply, Draining(runs=1).encode())

    subscription = await bus.subscribe(bus.subjects.drain("*", "leaving"), answer)
    await bus.connection.flush()  # The gateway asks over another connection.
    unnamed = await http.post("/v1/workers/leaving:drain")
    left = await http.post("/v1/workers/leaving:drain?agent=counter")
    await Announcer(bus, "leaving").withdraw("counter")

    async def is_known() -> bool:
        found = await http.post("/v1/workers/leaving:drain")
        return found.is_success and found.json() == left.json()

    await eventually(is_known, "a worker that repeats its deletion is known")
    await subscription.unsubscribe()
    assert unnamed.status_code == 404

    async def is_gone() -> bool:
        # Until the server has heard of it, the request is sent to nobody.
        ended = await http.post("/v1/workers/leaving:drain?agent=counter")
        return ended.status_code == 404

    await eventually(is_gone, "nobody listens")
    assert left.json() == {"worker": "leaving", "agent": "counter", "runs": 1}


@pytest.mark.usefixtures("fleet")
async def test_a_worker_that_takes_no_runs_any_more_is_unknown(http: httpx.AsyncClient) -> None:
    answer = await http.post(DRAIN)
    error = {"code": "worker_unknown", "message": "worker 'scripted' does not exist or has stopped"}
    assert (answer.status_code, answer.json()["error"]) == (404, error)


@pytest.mark.parametrize(
    "asked_for",
    [
        *("worker-1:drain", "*:drain", ">:drain", "scripted.x:drain", "%0A:drain"),
        *("*:drain?agent=counter", "scripted:drain?agent=*", "scripted:drain?agent=a.b"),
    ],
)
async def test_only_workers_that_are_named_are_queried(
    http: httpx.AsyncClient, drained: list[str], asked_for: str
) -> None:
    answer = await http.post(f"/v1/workers/{asked_for}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "worker_unknown")
    assert drained == []


async def test_only_who_may_route_all_agents_drains_workers_and_it_is_audited(
    open_role_gateway: OpenRoleGateway, drained: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_role_gateway(ONCALL, OPERATOR, RELEASER, DEPLOYER) as gateway:
        people = (ANN, ONCALL, OPERATOR, RELEASER)
        refused = [
            (await gateway.http.post(DRAIN, headers=headers)).status_code
            for headers in ({}, *(person.bearer for person in people))
        ]
        assert (refused, drained) == ([401, *[403] * len(people)], [])
        with caplog.at_level("INFO", "headrace.audit"):
            assert (await gateway.http.post(DRAIN, headers=DEPLOYER.bearer)).status_code == 200
    logged = [one.getMessage() for one in caplog.records if one.name == "headrace.audit"]
    who = "tenant=acme owner=deployer role=operator operation"
    what = "agent=* task=- target_owner=- outcome=permitted"
    assert f"{who}=DrainWorker {what} process=scripted" in logged
