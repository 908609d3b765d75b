"""Operators list processes, and change their log levels, over HTTP."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.model.messages import ProcessFound
from headrace.processes import ProcessAnswers
from tests.integration.gateway.protocols.fleet.conftest import (
    DEPLOYER,
    OPERATOR,
    RELEASER,
    OpenRoleGateway,
)
from tests.support.scripted_fleet import ScriptedFleet

LEVEL = "/v1/processes:logLevel"


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """The level of this process, which answers, is as before."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


@pytest_asyncio.fixture(loop_scope="module")
async def answering(bus: Bus, fleet: ScriptedFleet) -> AsyncIterator[None]:
    """A replica of task state, another of triggers, and the worker of the directory answer."""
    assert fleet.working
    subscriptions = [
        await ProcessAnswers(bus, "task-state", "one").start(),
        await ProcessAnswers(bus, "triggers", "two").start(),
        await ProcessAnswers(bus, "worker", "scripted").start("*", "scripted"),
    ]
    await bus.connection.flush()  # The gateway asks over another connection.
    yield
    for one in subscriptions:
        await one.unsubscribe()


def named_in(found: httpx.Response) -> list[tuple[str, str, str]]:
    """Return service, id and level of each process but gateways."""
    processes = found.raise_for_status().json()["processes"]
    shown = [(one["service"], one["process"], one["logLevel"]) for one in processes]
    return [one for one in shown if one[0] != "gateway"]


@pytest.mark.usefixtures("answering")
async def test_each_process_states_what_it_is(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/processes")
    named = [one[:2] for one in named_in(answer)]
    assert named == [("task-state", "one"), ("triggers", "two"), ("worker", "scripted")]
    found = answer.json()["processes"]
    assert found[0]["reads"] == ["2", "3"]
    assert found[0]["writes"] == "2"
    assert found[0]["release"]


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"service": "worker"}, ["scripted"]),
        ({"process": "two"}, ["two"]),
        ({}, ["one", "two", "scripted"]),
    ],
)
async def test_only_the_processes_that_are_named_log_at_another_level(
    http: httpx.AsyncClient, stated: dict[str, str], named: list[str]
) -> None:
    answer = await http.post(LEVEL, json={"level": "debug", **stated})
    assert [one[1:] for one in named_in(answer)] == [(one, "debug") for one in named]
    assert logging.getLogger().level == logging.DEBUG
    usual = await http.post(LEVEL, json={"level": "configured", **stated})
    assert {one[2] for one in named_in(usual)} == {"info"}
    assert logging.getLogger().level == logging.INFO


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(
    "forged",
    [
        {"service": "triggers", "process": "forged"},
        {"service": "worker", "process": "forged"},
        {"service": "worker", "process": "scripted", "release": "forged"},
        {"service": "task-state", "process": "one", "release": "late"},
    ],
)
async def test_answers_that_another_service_should_give_are_ignored(
    bus: Bus, http: httpx.AsyncClient, forged: dict[str, str]
) -> None:
    """The first answer of a process counts, and only of a service that was asked there."""
    found = {"release": "0", "reads": ["2"], "writes": "2", "log_level": "info", **forged}

    async def forge(msg: Msg) -> None:
        await asyncio.sleep(0.1)
        await bus.publish(msg.reply, json.dumps(found).encode())

    subscription = await bus.subscribe(bus.subjects.process("task-state"), forge)
    try:
        await bus.connection.flush()
        answer = await http.get("/v1/processes")
    finally:
        await bus.unsubscribe(subscription)
    named = [one[:2] for one in named_in(answer)]
    assert named == [("task-state", "one"), ("triggers", "two"), ("worker", "scripted")]
    assert {"forged", "late"}.isdisjoint(one["release"] for one in answer.json()["processes"])


@pytest.mark.usefixtures("answering")
async def test_another_process_can_not_answer_a_request_to_one(
    bus: Bus, http: httpx.AsyncClient
) -> None:
    other = ProcessFound(
        service="triggers", process="other", release="0", reads=["2"], writes="2", log_level="info"
    )

    async def forge(msg: Msg) -> None:
        await bus.publish(msg.reply, other.encode())

    subscription = await bus.subscribe(bus.subjects.process("triggers"), forge)
    try:
        await bus.connection.flush()
        answer = await http.post(LEVEL, json={"level": "debug", "process": "two"})
    finally:
        await bus.unsubscribe(subscription)
    assert [one[1] for one in named_in(answer)] == ["two"]


@pytest.mark.usefixtures("answering")
async def test_a_process_that_does_not_answer_is_unknown(http: httpx.AsyncClient) -> None:
    answer = await http.post(LEVEL, json={"level": "debug", "process": "three"})
    message = "no process of any service answers as 'three'"
    assert answer.status_code == 404
    assert answer.json()["error"] == {"code": "process_unknown", "message": message}


@pytest.mark.parametrize(
    ("service", "process", "rule"),
    [
        ("redis", 7, "Input should be a valid string"),
        ([], "", "must be the id of a process"),
        ({}, "a b", "must be the id of a process"),
        (7, "x" * 300, "must be the id of a process"),
    ],
)
async def test_all_that_is_wrong_with_a_request_is_reported(
    http: httpx.AsyncClient, service: object, process: object, rule: str
) -> None:
    body = {"level": "loud", "service": service, "process": process, "for": 60}
    answer = await http.post(LEVEL, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "level: Input should be 'debug', 'info', 'warning', 'error' or 'configured'; "
        "service: Input should be 'gateway', 'task-state', 'triggers' or 'worker'; "
        f"process: {rule}; for: Extra inputs are not permitted"
    )


@pytest.mark.usefixtures("answering")
async def test_only_who_may_route_all_agents_changes_levels_and_it_is_audited(
    open_role_gateway: OpenRoleGateway, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"level": "debug", "process": "one"}
    async with open_role_gateway(OPERATOR, RELEASER, DEPLOYER) as gateway:
        refused = [
            (await gateway.http.post(LEVEL, json=stated, headers=headers)).status_code
            for stated, headers in ((body, {}), (body, OPERATOR.bearer), ({}, RELEASER.bearer))
        ]
        listed = await gateway.http.get("/v1/processes", headers=OPERATOR.bearer)
        assert (refused, listed.status_code) == ([401, 403, 403], 403)
        with caplog.at_level("INFO", "headrace.audit"):
            answer = await gateway.http.post(LEVEL, json=body, headers=DEPLOYER.bearer)
    assert answer.status_code == 200
    logged = [one.getMessage() for one in caplog.records if one.name == "headrace.audit"]
    who = "tenant=acme owner=deployer role=operator operation"
    what = "process=one log_level=debug"
    assert f"{who}=SetLogLevel agent=* task=- target_owner=- outcome=permitted {what}" in logged
