"""NATS or task state away: 503 in the binding's shape where no log helps, and recovery."""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from headrace.jetstream.connection import Bus
from headrace.jetstream.streams import apply
from headrace.log_lines import RepeatLimit
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import AGENTS
from tests.support.clients.bindings import Refusal, Rest, Rpc, Talk, message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import NatsProcess, ports
from tests.support.waiting import eventually


def is_unavailable(refusal: Refusal) -> bool:
    return (
        (refusal.status, refusal.reason) == (503, "UNAVAILABLE")
        and refusal.code in (503, -32603)
        and int(refusal.headers["retry-after"]) > 0
    )


async def test_without_task_state_all_but_lists_works_from_the_log(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    request = (await talk.to("ask").call("SendMessage", message()))["task"]
    await fleet.stop_state()
    assert (await talk.call("SendMessage", message()))["task"]["artifacts"]
    assert (await talk.call("SendMessage", message(contextId="any")))["task"]["artifacts"]
    async with talk.stream("SendStreamingMessage", message()) as stream:
        assert len(await stream.rest()) == 4
    assert is_unavailable(await talk.refused("ListTasks", {}))
    params = {"id": request["id"]}
    assert await talk.to("ask").call("GetTask", params) == request
    async with talk.to("ask").stream("SubscribeToTask", params) as stream:
        _, event = await anext(stream.frames())
        assert event["task"] == request
    # As another agent's, or as nobody's, it is as unknown as ever.
    for agent, task in ((talk, request["id"]), (talk.to("ask"), f"{request['id'][:-3]}xyz")):
        assert (await agent.refused("GetTask", {"id": task})).reason == "TASK_NOT_FOUND"
    answered = await talk.to("ask").call("SendMessage", message(taskId=request["id"]))
    assert answered["task"]["id"] == request["id"]
    assert answered["task"]["status"]["state"] != request["status"]["state"]


async def test_without_task_state_tasks_are_canceled_from_their_logs(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    request = (await talk.to("ask").call("SendMessage", message()))["task"]["id"]
    foreign = await fleet.foreign_task("ask", "context")
    await fleet.stop_state()
    canceled = await talk.to("ask").call("CancelTask", {"id": request})
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert [output["role"] for output in canceled["history"]] == ["ROLE_USER", "ROLE_AGENT"]
    again = await talk.to("ask").refused("CancelTask", {"id": request})
    assert again.reason == "TASK_NOT_CANCELABLE"
    for task in (foreign.task, "0-" + "a" * 32):
        refused = await talk.to("ask").refused("CancelTask", {"id": task})
        assert refused.reason == "TASK_NOT_FOUND"


async def test_without_task_state_a_gateway_is_ready_but_degraded(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    assert (await http.get("/readyz")).json()["status"] == "ready"
    await fleet.stop_state()
    response = await http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")


async def test_a_gateway_begun_without_task_state_is_ready_too(
    settings: GatewaySettings, fleet: ScriptedFleet
) -> None:
    await fleet.stop_state()
    async with running(
        settings.model_copy(update={"http_port": ports.pick(), "grpc_port": 0})
    ) as url:
        response = await asyncio.to_thread(httpx.get, f"{url}/readyz", timeout=60)
    assert (response.status_code, response.json()["status"]) == (200, "degraded")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[NatsProcess]:
    """A nats-server that a test may stop."""
    with NatsProcess(tmp_path) as server:
        yield server


@pytest.fixture
def own_settings(own_server: NatsProcess) -> GatewaySettings:
    """A gateway's settings on that server."""
    name = f"outage{secrets.token_hex(4)}"
    return GatewaySettings(
        nats_url=own_server.url,
        prefix=name,
        stream_prefix=name,
        http_port=ports.pick(),
        grpc_port=0,
    )


@pytest_asyncio.fixture(loop_scope="module")
async def own_fleet(own_settings: GatewaySettings) -> AsyncIterator[ScriptedFleet]:
    """A fleet on that server."""
    bus = Bus(BusSettings.model_validate(own_settings.model_dump()))
    await bus.connect("fleet")
    fleet = await ScriptedFleet(bus, AGENTS).start()
    yield fleet
    await fleet.stop()
    await bus.close()


@pytest_asyncio.fixture(loop_scope="module")
async def own_gateway(
    own_settings: GatewaySettings, own_fleet: ScriptedFleet
) -> AsyncIterator[str]:
    """The URL of a gateway of that fleet."""
    assert own_fleet.working
    async with running(own_settings) as url:
        yield url


async def test_nats_lost_while_running_is_503_and_heals_by_itself(
    own_server: NatsProcess, own_fleet: ScriptedFleet, own_gateway: str
) -> None:
    async with httpx.AsyncClient(base_url=own_gateway, timeout=60, verify=NO_TLS) as http:
        assert "task" in await Rest(http).call("SendMessage", message())
        assert "headrace_runs_waiting{" in (await http.get("/metrics")).text
        own_server.kill()
        refusals = await asyncio.gather(
            *(talk.refused("SendMessage", message()) for talk in (Rest(http), Rpc(http))),
            *(talk.refused("GetTask", {"id": "0-" + "a" * 32}) for talk in (Rest(http), Rpc(http))),
        )
        assert all(map(is_unavailable, refusals))
        assert (await http.get("/healthz")).is_success
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert (await http.get("/v1/agents")).json()["agents"]
        page = (await http.get("/metrics")).raise_for_status().text
        assert "headrace_nats_connected 0" in page
        assert "headrace_runs_waiting{" not in page, "no figures rather than old ones"
        own_server.start()
        # It hears of no run that is asked for while it is away, and the message would wait for it.
        await own_fleet.settle()

        async def is_back() -> bool:
            return (await http.post("/message:send", json=message())).is_success

        async def is_ready() -> bool:
            return (await http.get("/readyz")).is_success

        await eventually(is_back, "messages are taken again")
        await eventually(is_ready, "it is ready again")


class LinesWritten(logging.Handler):
    """What a process would write that logs `LINES` lines a minute from one place."""

    LINES = 5

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.by_place = Counter[tuple[str, int]]()
        self.left_out = 0
        self.limit = RepeatLimit(self.LINES, self.handle)
        self.addFilter(self.limit)

    def emit(self, record: logging.LogRecord) -> None:
        self.left_out += getattr(record, "left_out", 0)
        if record.name.startswith("headrace") and not hasattr(record, "left_out"):
            self.by_place[record.pathname, record.lineno] += 1

    def end(self) -> tuple[int, int]:
        """Return the most lines of one place, and how many were left out."""
        self.limit.flush()
        logging.getLogger().removeHandler(self)
        return max(self.by_place.values()), self.left_out


@pytest.fixture
def written(caplog: pytest.LogCaptureFixture) -> Iterator[LinesWritten]:
    """The lines of the test."""
    caplog.set_level(logging.INFO)
    handler = LinesWritten()
    logging.getLogger().addHandler(handler)
    yield handler
    handler.end()


REQUESTS = 60


async def refused_requests(http: httpx.AsyncClient) -> set[tuple[int, str]]:
    """Return status and reason of many requests, a few at a time."""
    refused = set[tuple[int, str]]()
    for _ in range(REQUESTS // 20):
        asking = (Rest(http).refused("SendMessage", message()) for _ in range(20))
        refused |= {(one.status, one.reason) for one in await asyncio.gather(*asking)}
    return refused


async def test_a_full_log_and_an_outage_write_a_few_lines_however_many_requests_fail(
    own_server: NatsProcess,
    own_settings: GatewaySettings,
    own_fleet: ScriptedFleet,
    own_gateway: str,
    written: LinesWritten,
) -> None:
    bus = BusSettings.model_validate(own_settings.model_dump())
    full = bus.model_copy(update={"events_max_bytes": 1})
    async with httpx.AsyncClient(base_url=own_gateway, timeout=60, verify=NO_TLS) as http:
        await apply(own_fleet.bus.js, full, shrink=True)
        assert await refused_requests(http) == {(503, "UNAVAILABLE")}
        await apply(own_fleet.bus.js, bus.model_copy(update={"events_max_bytes": -1}), shrink=False)
        own_server.kill()
        assert await refused_requests(http) == {(503, "UNAVAILABLE")}
        own_server.start()
        await own_fleet.settle()
    most, left_out = written.end()
    assert most <= written.LINES
    assert sum(written.by_place.values()) <= REQUESTS
    assert left_out >= REQUESTS - written.LINES, "each refusal is counted"


async def test_a_gateway_whose_nats_is_frozen_is_not_ready_until_it_thaws(
    own_server: NatsProcess, own_gateway: str
) -> None:
    async with httpx.AsyncClient(base_url=own_gateway, timeout=60, verify=NO_TLS) as http:

        async def is_ready() -> bool:
            return (await http.get("/readyz")).is_success

        async def is_not_ready() -> bool:
            return not await is_ready()

        assert await is_ready()
        own_server.freeze()
        await eventually(is_not_ready, "it is not ready")
        assert (await http.get("/readyz")).json()["nats"] is False
        assert (await http.get("/healthz")).is_success
        own_server.thaw()
        await eventually(is_ready, "it is ready again")
