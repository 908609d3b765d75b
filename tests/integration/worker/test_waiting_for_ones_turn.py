"""Runs that wait behind others, however often they are looked at meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Emission, RunContext, agent
from headrace.jetstream.connection import Bus
from headrace.model.events import WAIT_FOR
from headrace.model.task import COMPLETED, TaskKey
from headrace_worker import claim
from headrace_worker.claim import whose_turn_it_is
from headrace_worker.recovery import RecoveredRun
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually


async def test_looks_at_a_run_that_waits_its_turn_are_no_attempts(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, may_end = 0, asyncio.Event()

    async def counted(bus: Bus, key: TaskKey, past: RecoveredRun) -> str | None:
        nonlocal looks
        task = await whose_turn_it_is(bus, key, past)
        looks += task is not None
        return task

    monkeypatch.setattr(claim, "whose_turn_it_is", counted)
    monkeypatch.setattr(claim, "MOST_ATTEMPTS", 3)

    @agent()
    async def clerk(ctx: RunContext) -> AsyncIterator[Emission]:
        if ctx.prompt == "first":
            await may_end.wait()
        yield ctx.prompt

    async with working(clerk, timing=Timing(turn_pauses=(0.01, 0.01))):
        first = await submitter.start("clerk", "first")
        await first.held()
        second = await submitter.start("clerk", "second", metadata={WAIT_FOR: [first.key.task]})

        async def looked_often() -> bool:
            return looks > 10

        await eventually(looked_often)
        assert (await second.last()).last_generation == 1
        may_end.set()
        entries = await second.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert entries[-1].stamp.attempt == 1
