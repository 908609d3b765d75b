"""A fork whose copy is unfinished is not worked on: it is finished, or ended."""

from collections.abc import AsyncIterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from headrace import Emission, Retry, RunContext, agent
from headrace.clock import TaskClock, use_task_clock
from headrace.log import last_entry
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, TaskUnknown
from headrace.model.run import Run
from headrace.model.task import REJECTED
from headrace.tasks import fork as forking
from headrace.tasks.fork import Fork, Forked
from headrace.testing import TestFleet
from headrace.testing.task import FleetTask
from headrace_gateway.refusals import TaskBusy, TaskEnded
from headrace_worker.assignment import Assignment
from headrace_worker.claim import Obsolete, decide


class Later(TaskClock):
    """The time when a copy that was begun a moment ago is given up."""

    def now(self) -> datetime:
        return super().now() + forking.GIVEN_UP


@agent(retry=Retry(attempts=1))
async def baker(ctx: RunContext) -> AsyncIterator[Emission]:
    """Bake in two steps."""
    yield "Kneaded. "
    await ctx.checkpoint({"dough": "ready"})
    yield "Baked."


class Interrupted:
    """A gateway that dies before it completes a fork."""

    def __init__(self) -> None:
        self.forks: list[Fork] = []

    async def __call__(self, _bus: object, fork: Fork, _copied: Forked) -> Forked:
        self.forks.append(fork)
        raise BusUnavailable("it died")


@pytest.fixture
async def fleet() -> AsyncIterator[TestFleet]:
    async with TestFleet([baker]) as fleet:
        yield fleet


@pytest.fixture
async def unfinished(fleet: TestFleet, monkeypatch: pytest.MonkeyPatch) -> Fork:
    """A fork whose gateway died."""
    task = (await fleet.send("baker", "bread")).handle
    head = (await task.now()).task["metadata"]["headrace.generation"]
    died = Interrupted()
    monkeypatch.setattr("headrace_gateway.tasks.fork.hand_over", died)
    with pytest.raises(BusUnavailable):
        await task.fork(head - 1)
    [fork] = died.forks
    return fork


async def decided(fleet: TestFleet, fork: Fork) -> tuple[Any, Entry]:
    """Return what a worker decides about the run, and how the log ends then."""
    last = await last_entry(fleet._bus, fork.key)
    assert last is not None
    run = Run(fork.key, fork.point.run, last.stamp.log, fork.context, fork.owner)
    assignment = Assignment(run, cast("Msg", SimpleNamespace()))
    decision = await decide(fleet._bus, assignment)
    after = await last_entry(fleet._bus, fork.key)
    assert after is not None
    return decision, after


async def test_no_worker_begins_a_run_of_it(fleet: TestFleet, unfinished: Fork) -> None:
    decision, last = await decided(fleet, unfinished)
    assert (type(decision), last.ends_task) == (Obsolete, False)


async def test_it_ends_once_its_copy_is_given_up(fleet: TestFleet, unfinished: Fork) -> None:
    with use_task_clock(Later()):
        decision, last = await decided(fleet, unfinished)
    assert (type(decision), last.stamp.state) == (Obsolete, REJECTED)
    assert forking.UNFINISHED in str(last.events)


async def test_it_accepts_no_message(fleet: TestFleet, unfinished: Fork) -> None:
    task = FleetTask(fleet._parts, unfinished.key, unfinished.context)
    with pytest.raises(TaskBusy, match="still being copied"):
        await task.follow_up("hello")


async def test_a_message_ends_it_once_its_message_is_given_up(
    fleet: TestFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (await fleet.send("baker", "bread")).handle
    runs = list[Run]()

    def die(_bus: object, run: Run, *_: object, **__: object) -> None:
        runs.append(run)
        raise BusUnavailable("it died")

    monkeypatch.setattr("headrace_gateway.tasks.fork.next_input", die)
    with pytest.raises(BusUnavailable):
        await source.fork(message="cake")
    [run] = runs
    with use_task_clock(Later()), pytest.raises(TaskEnded):
        await FleetTask(fleet._parts, run.key, "").follow_up("hello")
    last = await last_entry(fleet._bus, run.key)
    assert last is not None
    assert last.stamp.state == REJECTED


async def test_a_task_that_does_not_exist_can_not_be_forked(fleet: TestFleet) -> None:
    task = (await fleet.send("baker", "bread")).handle
    task.key = task.key.__class__(task.key.tenant, task.key.agent, "0-" + "9" * 32)
    with pytest.raises(TaskUnknown):
        await task.fork()
