"""Runs that nats-server has again in their queue after they were acknowledged."""

from pathlib import Path

from headrace.jetstream.api import until_answered
from headrace.jetstream.durables import ensure_consumer, of_pushes
from headrace.model.queues import RunQueue
from headrace.model.run import Run, RunTerms
from headrace.model.task import TaskKey
from headrace.tasks.runs import RunRequests, ensure_queue
from headrace_task_state.maintenance.queue_upkeep import QueueUpkeep
from headrace_task_state.maintenance.timing import MaintenanceTiming
from tests.support.backups import Backups
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import new_key, open_task_states
from tests.support.waiting import TIMEOUT


def run_of(key: TaskKey) -> Run:
    return Run(key, 1, "abcdefgh", "c", "ann", RunTerms())


async def test_a_finished_run_that_nats_brings_back_is_removed_and_can_be_requested_again(
    nats_alone: NatsProcess, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    timing = MaintenanceTiming()
    async with open_task_states(nats_alone.url, valkey.url, timing) as fleet:
        bus, runs = fleet.bus, RunRequests(fleet.bus)
        await ensure_consumer(bus, bus.streams.pushes, of_pushes(bus.subjects, 0))
        done, held = new_key(), new_key()
        queue = RunQueue(done.agent)
        await ensure_queue(bus, queue)
        for key in (done, held):
            assert await runs.publish(run_of(key))
        backups = Backups(nats_alone, tmp_path / "backups")
        await backups.take(bus.streams.runs)
        pulling = await bus.js.pull_subscribe_bind(queue.consumer, bus.streams.runs)
        [first, _] = await pulling.fetch(2, timeout=TIMEOUT)
        await first.ack_sync(timeout=TIMEOUT)
        await backups.restore_messages(bus.streams.runs)
        assert not await until_answered(bus, lambda: runs.publish(run_of(done)), TIMEOUT)
        await QueueUpkeep(bus, timing).remove_finished()
        assert await runs.publish(run_of(done))
        assert not await runs.publish(run_of(held))
