"""Turns between tenants and priorities: each queue's next run is begun before a full one's last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.js import api

from headrace import Emission, RunContext, agent
from headrace.model.errors import StreamsDiffer
from headrace.model.queues import RunQueue
from headrace.tasks.runs import RunQueues, ensure_queue
from headrace_task_state.maintenance.queue_upkeep import QueueUpkeep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.support.resuming_sizes import sized
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


class Clerk:
    """An agent that notes whom it serves, in order."""

    def __init__(self) -> None:
        self.served: list[str] = []

        @agent(name="clerk")
        async def clerk(ctx: RunContext) -> AsyncIterator[Emission]:
            self.served.append(ctx.prompt)
            await asyncio.sleep(0.002)
            yield "done"

        self.agent = clerk

    async def has_served(self, count: int) -> None:
        """Return once it has begun so many runs."""

        async def is_through() -> bool:
            return len(self.served) >= count

        await eventually(is_through, timeout=200)


async def fill(submitter: TaskSubmitter, count: int, queue: RunQueue) -> list[Task]:
    await RunQueues(submitter.bus).open(queue)
    return await asyncio.gather(*(submitter.start_in(queue, queue.tenant) for _ in range(count)))


@pytest.mark.soak
async def test_one_run_of_a_tenant_is_begun_among_hundreds_of_another(
    submitter: TaskSubmitter, working: Working
) -> None:
    await ensure_queue(submitter.bus, RunQueue("clerk"))
    crowd = sized(300, 1000)
    await fill(submitter, crowd, RunQueue("clerk", "crowd"))
    [single] = await fill(submitter, 1, RunQueue("clerk", "single"))
    clerk = Clerk()
    async with working(clerk.agent, concurrency=4):
        await single.ended()
        position = clerk.served.index("single")
        assert position < 60, f"{position} runs of another tenant were begun before it"
        await clerk.has_served(crowd + 1)
    assert clerk.served.count("crowd") == crowd


async def test_tenants_with_runs_waiting_get_equally_many_turns(
    submitter: TaskSubmitter, working: Working
) -> None:
    await ensure_queue(submitter.bus, RunQueue("clerk"))
    queues = [RunQueue("clerk", tenant) for tenant in ("a", "b", "c")]
    for queue in queues:
        await fill(submitter, 60, queue)
    clerk = Clerk()
    async with working(clerk.agent, concurrency=2):
        await clerk.has_served(180)
    # The first may have had its turns before the others were found.
    begun = clerk.served[:130]
    assert all(begun.count(queue.tenant) >= 25 for queue in queues), begun


async def test_a_higher_priority_gets_more_turns_and_a_lower_one_some(
    submitter: TaskSubmitter, working: Working
) -> None:
    await ensure_queue(submitter.bus, RunQueue("clerk"))
    await RunQueues(submitter.bus).open(RunQueue("clerk", "default", "high"))
    await RunQueues(submitter.bus).open(RunQueue("clerk", "default", "low"))
    for priority in ("low", "high"):
        for _ in range(80):
            await submitter.start_in(RunQueue("clerk", "default", priority), priority)
    clerk = Clerk()
    async with working(clerk.agent, concurrency=1):
        await clerk.has_served(160)
    # 9 : 1 while both wait; whoever is found first has a few turns alone.
    until_high_is_through = clerk.served[: _last(clerk.served, "high")]
    assert 3 <= until_high_is_through.count("low") <= 40, clerk.served


async def test_a_queue_made_while_workers_run_is_served_at_once(
    submitter: TaskSubmitter, working: Working
) -> None:
    timing = Timing(queue_interval=3600.0)
    clerk = Clerk()
    async with working(clerk.agent, timing=timing):
        [task] = await fill(submitter, 1, RunQueue("clerk", "newcomer"))
        await task.ended()


async def test_a_queue_whose_hint_was_lost_is_found_all_the_same(
    submitter: TaskSubmitter, working: Working
) -> None:
    timing = Timing(queue_interval=0.2)
    clerk, queue = Clerk(), RunQueue("clerk", "unheard")
    async with working(clerk.agent, timing=timing):
        await ensure_queue(submitter.bus, queue)
        task = await submitter.start_in(queue, "unheard")
        await task.ended()


async def test_an_unused_queue_is_deleted_and_created_again_when_it_is_used(
    submitter: TaskSubmitter, working: Working
) -> None:
    timing = Timing(queue_interval=0.1)
    upkeep = QueueUpkeep(submitter.bus, MaintenanceTiming(queue_interval=0.1, unused_queue=2.0))
    clerk, queue = Clerk(), RunQueue("clerk", "seldom")
    async with working(clerk.agent, timing=timing), keeping(upkeep):
        [task] = await fill(submitter, 1, queue)
        await task.ended()
        await eventually(lambda: missing(submitter, queue))
        [task] = await fill(submitter, 1, queue)
        await task.ended()
    assert clerk.served == ["seldom", "seldom"]


@asynccontextmanager
async def keeping(upkeep: QueueUpkeep) -> AsyncIterator[None]:
    task = asyncio.create_task(upkeep.run())
    try:
        yield
    finally:
        task.cancel()


async def missing(submitter: TaskSubmitter, queue: RunQueue) -> bool:
    info = await submitter.bus.request(
        f"$JS.API.CONSUMER.INFO.{submitter.bus.streams.runs}.{queue.consumer}", b"", 30.0
    )
    return b"10014" in info.data


async def test_a_queue_of_an_older_version_is_made_again_when_it_is_removed(
    submitter: TaskSubmitter, working: Working
) -> None:
    every_tenant = submitter.bus.subjects.runs_of_agent("clerk")
    queue = api.ConsumerConfig(durable_name="clerk", filter_subject=every_tenant, max_deliver=-1)
    await submitter.bus.js.add_consumer(submitter.bus.streams.runs, queue)
    with pytest.raises(StreamsDiffer, match="headrace streams apply"):
        await ensure_queue(submitter.bus, RunQueue("clerk"))
    mine = await submitter.start("clerk", "mine")
    await submitter.bus.js.delete_consumer(submitter.bus.streams.runs, "clerk")
    clerk = Clerk()
    async with working(clerk.agent):
        [other] = await fill(submitter, 1, RunQueue("clerk", "other"))
        await asyncio.gather(mine.ended(), other.ended())


def _last(served: list[str], who: str) -> int:
    return len(served) - served[::-1].index(who)
