"""The runs of dead workers go back to the queue at once; those of healthy ones stay where they are.

Leases last for ten minutes here, so a run that is not given back hangs its test.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from nats.aio.msg import Msg

from headrace import Agents, Emission, Limits, RunContext, agent
from headrace.directory import AgentCard, Announcer
from headrace.jetstream.api import request
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import consumer_info, delivery
from headrace.model.messages import Holds, HoldsQuery
from headrace.model.queues import RunQueue
from headrace.model.task import COMPLETED
from headrace.settings import BusSettings
from headrace.tasks.runs import ensure_queue
from headrace_task_state.main import TaskState
from headrace_task_state.maintenance.held_tasks import HeldTasks
from headrace_task_state.maintenance.timing import WatchTiming
from headrace_task_state.settings import TaskStateSettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.timing import Timing
from headrace_worker.worker import Worker
from tests.support.nats_proxy import NatsProxy
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_submitter import Task, TaskSubmitter, fresh_names, open_submitter
from tests.support.waiting import TIMEOUT, eventually, soon
from tests.support.watching import watching

LEASE = 600.0
FAST = WatchTiming(0.05, 0.05, directory_interval=0.05, answer=1.0)


@dataclass
class Fleet:
    """Workers of an agent that goes on when the test says so."""

    nats: NatsProcess
    settings: BusSettings
    submitter: TaskSubmitter
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def worker(self, url: str = "") -> AsyncIterator[Worker]:
        """Serve the agent in this process for the length of the block."""

        @agent(limits=Limits(concurrency=20))
        async def long(_: RunContext) -> AsyncIterator[Emission]:
            yield "begun "
            await self.may_end.wait()
            yield "ended"

        given = self.settings.model_dump() | {"nats_url": url or self.nats.url, "drain_seconds": 0}
        settings = WorkerSettings.model_validate(given)
        worker = Worker(settings, Agents([long]), Timing(lease=LEASE))
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def begun(
        self, number: int, held_by: Worker | None = None, *, lengthens: bool = True
    ) -> list[Task]:
        """Return tasks that a worker has begun, at least `number` of them the one in `held_by`.

        Not with `lengthens`: the queue is as task state requires it, for which it requests runs.
        """
        if lengthens:
            await lengthen_leases(self.submitter.bus, "long")
        tasks = list[Task]()
        while number:
            tasks.append(await self.submitter.start("long"))
            await tasks[-1].reaches(3)
            if held_by is None or (await tasks[-1].held()).worker == held_by.id:
                number -= 1
        return tasks

    async def attempts(self, tasks: list[Task]) -> dict[str, int]:
        """Let the agents go on; return the attempts in which the tasks ended."""
        self.may_end.set()
        logs = [await task.ended() for task in tasks]
        assert {entries[-1].stamp.state for entries in logs} == {COMPLETED}
        return {
            task.key.task: entries[-1].stamp.attempt
            for task, entries in zip(tasks, logs, strict=True)
        }


async def lengthen_leases(bus: Bus, consumer: str) -> None:
    """Have the queue wait for heartbeats as long as nothing else may take in a test."""
    found = (await consumer_info(bus, bus.streams.runs, consumer))["config"]
    query = {
        "stream_name": bus.streams.runs,
        "config": found | {"ack_wait": round(LEASE * 1e9)},
        "action": "update",
    }
    await request(bus, f"CONSUMER.DURABLE.CREATE.{bus.streams.runs}.{consumer}", query, 5.0)


@pytest.fixture
async def fleet(nats_server: NatsProcess) -> AsyncIterator[Fleet]:
    settings = BusSettings.model_validate({"nats_url": nats_server.url, **fresh_names()})
    async with open_submitter(settings) as submitter:
        yield Fleet(nats_server, settings, submitter)


async def all_listed(worker: Worker, number: int) -> None:
    """Return once a watcher knows that many holds of the worker."""
    listed = worker._leases._listed

    def are_known() -> bool:
        return len(listed._held) >= number and max(listed._held) <= listed._known

    await soon(are_known, "the watcher knows the worker's holds")


async def in_attempt(task: Task, attempt: int) -> None:
    """Return once the task is in that attempt."""

    async def is_in_it() -> bool:
        return (await task.last()).stamp.attempt == attempt

    await eventually(is_in_it, f"task {task.key.task} is in attempt {attempt}")


async def test_the_runs_of_a_worker_that_is_gone_are_taken_over_though_their_leases_last(
    fleet: Fleet,
) -> None:
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(NatsProxy(fleet.nats.port))
        dying = await stack.enter_async_context(fleet.worker(cable.url))
        await stack.enter_async_context(fleet.worker())
        await stack.enter_async_context(watching(fleet.settings, FAST))
        tasks = await fleet.begun(3, held_by=dying)
        expected = {
            task.key.task: 2 if (await task.held()).worker == dying.id else 1 for task in tasks
        }
        await all_listed(dying, 3)
        await cable.__aexit__(None, None, None)
        lost = [task for task in tasks if expected[task.key.task] == 2]
        await asyncio.gather(*(in_attempt(task, 2) for task in lost))
        assert await fleet.attempts(tasks) == expected
        await dying.abort()


async def test_the_runs_of_a_worker_that_died_with_its_watcher_are_taken_over_though_leases_last(
    fleet: Fleet, valkey: ValkeyProcess
) -> None:
    named = fleet.settings.model_dump() | {"redis_url": valkey.url}
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(NatsProxy(fleet.nats.port))
        dying = await stack.enter_async_context(fleet.worker(cable.url))
        healthy = await stack.enter_async_context(fleet.worker())
        replica = TaskState(TaskStateSettings.model_validate(named))
        await replica.start()
        tasks = await fleet.begun(3, held_by=dying, lengthens=False)
        lost = [task for task in tasks if (await task.held()).worker == dying.id]
        await all_listed(dying, len(lost))
        await soon(lambda: len(dying._leases._extended) == len(lost), "the leases are long")
        # Its successor finds the tasks in the view, but no process has a list of the worker's runs.
        await replica.stop()
        await cable.__aexit__(None, None, None)
        replica = TaskState(TaskStateSettings.model_validate(named))
        await replica.start()
        stack.push_async_callback(replica.stop)
        await asyncio.gather(*(in_attempt(task, 2) for task in lost))
        assert {(await task.held()).worker for task in tasks} == {healthy.id}
        expected = {task.key.task: 2 if task in lost else 1 for task in tasks}
        assert await fleet.attempts(tasks) == expected
        await dying.abort()


async def test_who_gets_a_run_of_a_healthy_worker_leaves_it_alone(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """A watcher that finds a worker dead whenever it looks does no harm."""
    mistaken = replace(FAST, absences=0)
    async with fleet.worker() as first, fleet.worker() as second:
        tasks = await fleet.begun(10)
        consumer = await consumer_info(
            fleet.submitter.bus, fleet.submitter.bus.streams.runs, "long"
        )
        before = consumer["delivered"]["consumer_seq"]
        with caplog.at_level(logging.DEBUG):
            async with watching(fleet.settings, mistaken):

                async def were_delivered_again() -> bool:
                    bus = fleet.submitter.bus
                    now = await consumer_info(bus, bus.streams.runs, "long")
                    return bool(now["delivered"]["consumer_seq"] > before + 50)

                await eventually(were_delivered_again)
        assert f"is held by {first.id}" in caplog.text or f"is held by {second.id}" in caplog.text
        assert set((await fleet.attempts(tasks)).values()) == {1}


async def test_a_worker_that_comes_back_keeps_its_runs(fleet: Fleet) -> None:
    patient = replace(FAST, absences=400)
    async with (
        NatsProxy(fleet.nats.port) as cable,
        fleet.worker(cable.url) as worker,
        fleet.worker(),
        watching(fleet.settings, patient),
    ):
        tasks = await fleet.begun(2, held_by=worker)
        for _ in range(3):
            await all_listed(worker, 1)
            worker._leases._listed._known = 0
            await cable.cut()
        await all_listed(worker, 1)
        assert set((await fleet.attempts(tasks)).values()) == {1}


async def test_leases_are_short_again_without_a_watcher(fleet: Fleet) -> None:
    async with fleet.worker() as worker:
        async with watching(fleet.settings, FAST):
            await fleet.begun(3)
            await soon(lambda: len(worker._leases._extended) == 3, "the leases are long")
        await soon(lambda: len(worker._leases._beating) == 3, "the leases are short")
        fleet.may_end.set()


async def test_the_tasks_that_a_worker_holds_are_known_until_it_does_not_answer(
    fleet: Fleet,
) -> None:
    held = HeldTasks()
    async with AsyncExitStack() as stack:
        cable = await stack.enter_async_context(NatsProxy(fleet.nats.port))
        dying = await stack.enter_async_context(fleet.worker(cable.url))
        watch = watching(fleet.settings, replace(FAST, absences=10_000), held)
        await stack.enter_async_context(watch)
        tasks = await fleet.begun(3, held_by=dying)
        subjects = [fleet.submitter.bus.subjects.control(task.key) for task in tasks]
        await soon(lambda: all(map(held.find, subjects)), "the tasks are known")
        fleet.may_end.set()
        await tasks[0].ended()
        await soon(lambda: held.find(subjects[0]) is None, "the end of the hold is known")
        fleet.may_end.clear()
        [task] = await fleet.begun(1, held_by=dying)
        subject = fleet.submitter.bus.subjects.control(task.key)
        await soon(lambda: held.find(subject) is not None, "the task is known")
        await cable.__aexit__(None, None, None)
        await soon(lambda: held.find(subject) is None, "the worker does not answer")
        await dying.abort()


class StubWorker:
    """A worker that pulls one run, says which it holds, and says nothing more if told to."""

    def __init__(self, bus: Bus, name: str = "worker-stub") -> None:
        self._bus, self._name = bus, name
        self.answer = Holds(number=1, whole=True)
        self.is_frozen = False
        self.was_asked: list[int] = []

    async def serve(self) -> None:
        """Be in the directory, and answer."""
        await ensure_queue(self._bus, RunQueue("long"))
        await lengthen_leases(self._bus, "long")
        await self._bus.listen(self._bus.subjects.holds("*", self._name), self._receive)
        await Announcer(self._bus, self._name).announce(AgentCard(name="long", description="-"))

    async def pull(self) -> Msg:
        """Return the next run, once there is one."""
        pulling = await self._bus.js.pull_subscribe_bind("long", self._bus.streams.runs)
        [run] = await pulling.fetch(1, timeout=TIMEOUT)
        await pulling.unsubscribe()
        return run

    def _receive(self, msg: Msg) -> None:
        self.was_asked.append(HoldsQuery.decode(msg.subject, msg.data).after)
        if not self.is_frozen:
            asyncio.get_running_loop().create_task(
                self._bus.publish(msg.reply, self.answer.encode())
            )


async def test_a_worker_that_froze_loses_its_runs(fleet: Fleet) -> None:
    bus = fleet.submitter.bus
    frozen = StubWorker(bus)
    await frozen.serve()
    await fleet.submitter.start("long")
    held = await frozen.pull()
    frozen.answer = Holds(number=1, taken={1: held.reply}, whole=True)
    async with watching(fleet.settings, replace(FAST, answer=0.5)):
        await soon(lambda: 1 in frozen.was_asked, "the watcher knows the run")
        frozen.is_frozen = True
        again = await frozen.pull()
    assert delivery(again.reply).sequence == delivery(held.reply).sequence


@pytest.mark.parametrize(
    "named",
    [
        "$JS.API.STREAM.DELETE.{runs}",
        "{prefix}.drain.long.worker-stub",
        "$JS.ACK.{runs}.others.1.{rest}",
        "$JS.ACK.{events}.long.1.{rest}",
        "$JS.ACK.{runs}.long.1.1.1.1",
        "$JS.API.{runs}.long.1.1.1.1.0",
    ],
)
async def test_task_state_publishes_nothing_else_for_a_worker(fleet: Fleet, named: str) -> None:
    bus = fleet.submitter.bus
    subject = named.format(
        runs=bus.streams.runs,
        events=bus.streams.events(0),
        prefix=bus.subjects.prefix,
        rest="1.1.1.0",
    )
    hostile = StubWorker(bus)
    await hostile.serve()
    hostile.answer = Holds(number=1, taken={1: subject}, whole=True)
    received = list[str]()
    await bus.listen(subject, lambda msg: received.append(msg.subject))
    async with watching(fleet.settings, replace(FAST, answer=0.2)):
        await soon(lambda: 1 in hostile.was_asked, "the watcher knows the subject")
        hostile.is_frozen = True
        requests = len(hostile.was_asked)
        # It starts over once it has given the runs back.
        await soon(lambda: 0 in hostile.was_asked[requests:], "the runs are given back")
        await bus.connection.flush()
    assert received == []


async def test_a_worker_holds_no_tasks_of_other_agents_and_the_next_run_of_its_own(
    fleet: Fleet,
) -> None:
    bus, held = fleet.submitter.bus, HeldTasks()
    worker = StubWorker(bus)
    await worker.serve()
    own, other = (f"{bus.subjects.prefix}.control.t.{agent}.1" for agent in ("long", "other"))
    tasks = {1: own, 2: other, 3: "long", 4: ""}
    worker.answer = Holds(number=4, taken=dict.fromkeys(tasks, "ack"), tasks=tasks, whole=True)
    async with watching(fleet.settings, FAST, held):
        await soon(lambda: 4 in worker.was_asked, "the watcher knows the tasks")
        assert [bool(held.find(subject)) for subject in tasks.values()] == [True, *[False] * 3]
        # One answer has the end of a hold and the next hold of the same task.
        worker.answer = Holds(number=6, taken={6: "ack"}, tasks={6: own}, released=[1])
        await soon(lambda: 6 in worker.was_asked, "the watcher knows the next hold")
        assert held.find(own) is not None
    assert held.find(own) is None
