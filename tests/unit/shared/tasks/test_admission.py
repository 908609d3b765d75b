"""Warnings of bounds on waiting runs, with figures of the queue that a test states."""

import asyncio
import logging
from collections import Counter

import pytest

from headrace.jetstream.connection import Bus
from headrace.metrics import QUOTA_WARNINGS
from headrace.model.task import TaskKey, mint_task_id
from headrace.settings import RunLimitSettings
from headrace.tasks import admission
from headrace.tasks.admission import Admission, QueueCounts, Scope, TooManyWaiting
from headrace.tasks.quotas import QuotaWarning
from tests.support.fake_bus import FakeBus

AGENT, TENANT, OTHER = Scope("shop"), Scope("shop", "acme"), Scope("shop", "other")


class Waiting:
    """How many runs the queue says are waiting."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs = Counter[Scope]()
        monkeypatch.setattr(admission, "read_figures", self._read)

    async def _read(self, bus: Bus, timeout: float) -> QueueCounts:
        del bus, timeout
        return QueueCounts(waiting=self.runs.copy())


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(monkeypatch)


class Resting:
    """A queue whose reads are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self.is_read = asyncio.Event()
        monkeypatch.setattr(admission, "read_figures", self._read)

    async def _read(self, bus: Bus, timeout: float) -> QueueCounts:
        del bus, timeout
        self.reads += 1
        self.is_read.set()
        return QueueCounts()


async def test_a_queue_without_new_runs_is_read_seldom_and_at_once_for_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = Resting(monkeypatch)
    settings = RunLimitSettings.model_construct(max_waiting_per_agent=20, max_waiting_per_tenant=10)
    resting = Admission(FakeBus(), settings, interval=0.001, at_rest=1e6)
    resting.start()
    try:
        for reads in (1, 2):
            async with asyncio.timeout(60):
                await queue.is_read.wait()
            await asyncio.sleep(0.1)
            assert queue.reads == reads
            queue.is_read.clear()
            (await resting.admit(TaskKey("acme", "shop", mint_task_id(0)))).settle()
    finally:
        await resting.stop()


class Bounded:
    """An admission with bounds of 20 per agent and 10 per tenant."""

    def __init__(self) -> None:
        settings = RunLimitSettings.model_construct(
            max_waiting_per_agent=20, max_waiting_per_tenant=10
        )
        self.warnings = list[QuotaWarning]()
        self.admission = Admission(FakeBus(), settings, interval=0, warn=self.warnings.append)

    async def admit(self, tenant: str) -> None:
        (await self.admission.admit(TaskKey(tenant, "shop", mint_task_id(0)))).settle()


def counted(name: str) -> float:
    return float(QUOTA_WARNINGS.labels(name)._value.get())


async def test_a_run_that_another_bound_refuses_is_not_warned_of(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    waiting.runs.update({AGENT: 18, TENANT: 10})
    bounded, before = Bounded(), counted("waiting-agent")
    with pytest.raises(TooManyWaiting, match="10 runs of yours"):
        await bounded.admit("acme")
    assert (bounded.warnings, caplog.messages) == ([], [])
    assert counted("waiting-agent") == before


async def test_a_bound_of_all_tenants_is_logged_but_in_no_response(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    waiting.runs.update({AGENT: 17, TENANT: 8})
    bounded, before = Bounded(), counted("waiting-agent")
    await bounded.admit("acme")
    assert [one.quota for one in bounded.warnings] == ["waiting-tenant"]
    assert counted("waiting-agent") == before + 1
    assert [one.partition(":")[0] for one in caplog.messages] == [
        "limit waiting-agent",
        "limit waiting-tenant",
    ]


async def test_bounds_are_forgotten_once_they_are_far_and_logged_when_they_are_near_again(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    bounded = Bounded()
    for round_ in range(2):
        waiting.runs = Counter({TENANT: 8, OTHER: 8})
        await bounded.admission._look_together()
        for tenant in ("acme", "other", "acme"):
            await bounded.admit(tenant)
        assert len(caplog.messages) == 2 * (round_ + 1)
        waiting.runs = Counter({TENANT: 7})
        await bounded.admission._look_together()
        assert not bounded.admission._warnings.near
