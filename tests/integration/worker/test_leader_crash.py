"""On three nodes, the work queue's leader dies: healthy runs are handed out again, to no effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from headrace import Agents, Emission, Limits, RunContext, agent
from headrace.model.task import COMPLETED
from headrace.settings import BusSettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.cluster import NatsCluster
from tests.support.jetstream_api import leader_of
from tests.support.task_submitter import fresh_names, open_submitter
from tests.support.waiting import eventually
from tests.support.watching import watching

RUNS = 20


def settings_of(cluster: NatsCluster) -> dict[str, object]:
    return {"nats_url": cluster.url, "replicas": 3, "drain_seconds": 0, **fresh_names()}


def workers_of(settings: dict[str, object], may_end: asyncio.Event) -> list[Worker]:
    """Return two workers of an agent whose runs end once they may."""

    @agent(limits=Limits(concurrency=RUNS))
    async def long(_: RunContext) -> AsyncIterator[Emission]:
        yield "begun "
        await may_end.wait()
        yield "ended"

    own = WorkerSettings.model_validate(settings)
    return [Worker(own, Agents([long])) for _ in range(2)]


async def test_runs_that_are_healthy_when_the_consumers_leader_dies_end_in_attempt_1(
    nats_cluster: NatsCluster,
) -> None:
    may_end, settings = asyncio.Event(), settings_of(nats_cluster)
    workers = workers_of(settings, may_end)
    async with open_submitter(BusSettings.model_validate(settings)) as submitter:
        for worker in workers:
            await worker.start()
        try:
            tasks = [await submitter.start("long") for _ in range(RUNS)]
            await asyncio.gather(*(task.reaches(3) for task in tasks))
            info = await submitter.bus.js.consumer_info(submitter.bus.streams.runs, "long")
            before = info.delivered.consumer_seq if info.delivered else 0
            consumer = f"CONSUMER.INFO.{submitter.bus.streams.runs}.long"
            named = await leader_of(submitter.bus.connection, consumer)
            await asyncio.to_thread(nats_cluster.node(named).kill)

            async def were_handed_out_again() -> bool:
                try:
                    now = await submitter.bus.js.consumer_info(submitter.bus.streams.runs, "long")
                except Exception:  # noqa: BLE001  # until there is a new leader
                    return False
                return now.delivered is not None and now.delivered.consumer_seq > before

            await eventually(were_handed_out_again, timeout=120)
            # Whoever got a copy has had the time to do the wrong thing.
            await asyncio.sleep(3)
            may_end.set()
            logs = [await task.ended() for task in tasks]
        finally:
            await asyncio.gather(*(worker.stop() for worker in workers))
            await asyncio.to_thread(nats_cluster.heal)
    assert [entries[-1].stamp.state for entries in logs] == [COMPLETED] * RUNS
    assert {entry.stamp.attempt for entries in logs for entry in entries} == {0, 1}


async def test_runs_whose_workers_are_watched_end_in_attempt_1_though_a_leader_dies(
    nats_cluster: NatsCluster,
) -> None:
    may_end, settings = asyncio.Event(), settings_of(nats_cluster)
    workers = workers_of(settings, may_end)
    bus_settings = BusSettings.model_validate(settings)
    async with open_submitter(bus_settings) as submitter, AsyncExitStack() as stack:
        for worker in workers:
            await worker.start()
            stack.push_async_callback(worker.stop)
        stack.push_async_callback(asyncio.to_thread, nats_cluster.heal)
        await stack.enter_async_context(watching(bus_settings))
        tasks = [await submitter.start("long") for _ in range(RUNS)]
        await asyncio.gather(*(task.reaches(3) for task in tasks))
        info = f"CONSUMER.INFO.{submitter.bus.streams.runs}.long"
        for _ in range(2):
            named = await leader_of(submitter.bus.connection, info)
            await asyncio.to_thread(nats_cluster.node(named).kill)
            await leader_of(submitter.bus.connection, info)
            # Who was given back a run, or got a copy, has had the time to do the wrong thing.
            await asyncio.sleep(5)
            await asyncio.to_thread(nats_cluster.heal)
        may_end.set()
        logs = [await task.ended() for task in tasks]
    assert [entries[-1].stamp.state for entries in logs] == [COMPLETED] * RUNS
    assert {entry.stamp.attempt for entries in logs for entry in entries} == {0, 1}
