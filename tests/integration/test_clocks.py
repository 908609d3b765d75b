"""Services on a machine with a wrong clock."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace import Agents
from headrace.demo import echo
from headrace.jetstream.connection import Bus
from headrace.jetstream.server_clock import ServerClock
from headrace.metrics import CLOCK_OFFSET
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.running_gateway import running
from tests.support.servers import NatsProcess, ports
from tests.support.task_submitter import fresh_names
from tests.support.waiting import eventually

DAY = 86_400.0
REPORTED = "clocks are not synchronized: NATS is -86"


@pytest.fixture
def given(nats_server: NatsProcess) -> dict[str, object]:
    return {"nats_url": nats_server.url, "startup_timeout": 60, **fresh_names()}


@asynccontextmanager
async def served(kind: str, given: dict[str, object]) -> AsyncIterator[None]:
    """Run a service in this process."""
    if kind == "gateway":
        places = {"http_port": ports.pick(), "grpc_port": 0}
        async with running(GatewaySettings.model_validate(given | places)):
            yield
        return
    service: Worker | TriggersReplica = (
        Worker(WorkerSettings.model_validate(given), Agents([echo]))
        if kind == "worker"
        else TriggersReplica(TriggersSettings.model_validate(given))
    )
    await service.start()
    yield
    await service.stop()


@pytest.mark.parametrize("kind", ["gateway", "worker", "triggers"])
async def test_a_wrong_clock_is_reported(
    kind: str,
    given: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + DAY)
    async with served(kind, given):
        await eventually(lambda: _is_logged(caplog, REPORTED), f"the {kind} reports its clock")
    offset = CLOCK_OFFSET.labels("nats")._value.get()  # as the endpoint reads it
    assert offset == pytest.approx(-DAY, abs=3600)


async def test_a_clock_that_is_right_again_is_reported_once(
    given: dict[str, object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headrace.jetstream.server_clock")
    bus, right = Bus(BusSettings.model_validate(given)), time.time
    await bus.connect("clocks")
    clock = ServerClock(bus)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: right() + DAY)
            for _ in range(2):
                await clock.compare()
            assert clock.now() == pytest.approx(right(), abs=3600)
        for _ in range(2):
            await clock.compare()
    finally:
        await bus.close()
    assert clock.deviation == ""
    logged = [line.getMessage() for line in caplog.records if line.name == clock.__module__]
    assert [line.split(":")[0] for line in logged] == [
        "clocks are not synchronized",
        "clocks are synchronized again",
    ]


async def test_a_clock_that_is_set_does_not_change_the_time_until_the_next_comparison(
    given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, right = Bus(BusSettings.model_validate(given)), time.time
    await bus.connect("clocks")
    clock = ServerClock(bus)
    try:
        await clock.compare()
        monkeypatch.setattr(time, "time", lambda: right() + DAY)
        assert clock.now() == pytest.approx(right(), abs=3600)
        await clock.compare()
    finally:
        await bus.close()
    assert clock.now() == pytest.approx(right(), abs=3600)
    assert "NATS is -86" in clock.deviation


async def _is_logged(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return words in caplog.text
