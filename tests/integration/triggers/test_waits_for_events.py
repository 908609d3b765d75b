"""A run that waits for an event is woken by the first that matches, whatever dies meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from nats.js.api import StreamConfig
from prometheus_client import REGISTRY

from headrace import RunContext, Subject, agent
from headrace.model.queues import RunQueue
from headrace.model.task import COMPLETED, FAILED
from headrace.tasks.cancel import cancel_task
from headrace.triggers import TriggerStore
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from tests.integration.worker.test_sleeping import attempts, said
from tests.integration.worker.test_waits import arrivals, asleep
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import TaskStates, open_task_states
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.triggers import Orders
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

TARGET = "tests.integration.triggers.test_waits_for_events:clerk"


@agent
async def clerk(ctx: RunContext) -> str:
    """Waits for the event that its message describes."""
    event = await ctx.wait(Subject(**json.loads(ctx.prompt)))
    return json.dumps(
        {"body": event.json(), "subject": event.headers["subject"], "of": event.headers.get("of")}
    )


@pytest.fixture
async def fleet(nats_server: NatsProcess, valkey: ValkeyProcess) -> AsyncIterator[TaskStates]:
    """A fleet with task state."""
    async with open_task_states(nats_server.url, valkey.url) as fleet:
        await fleet.start()
        yield fleet


@contextmanager
def working(fleet: TaskStates, folder: Path) -> Iterator[WorkerProcess]:
    """Serve the agent."""
    settings = fleet.settings
    names = {"prefix": settings.prefix, "stream_prefix": settings.stream_prefix}
    with WorkerProcess(folder, TARGET, settings.nats_url, names) as worker:
        yield worker


@asynccontextmanager
async def taking(fleet: TaskStates) -> AsyncIterator[None]:
    """Run a replica of triggers."""
    settings = fleet.settings
    names = {"prefix": settings.prefix, "stream_prefix": settings.stream_prefix}
    given = {"nats_url": settings.nats_url, **names}
    replica = TriggersReplica(TriggersSettings.model_validate(given), finished_interval=0.3)
    await replica.start()
    try:
        yield
    finally:
        await replica.stop()


async def waiting(submitter: TaskSubmitter, orders: Orders, **match: object) -> Task:
    """Return a task that waits for an order that matches."""
    source = {"subject": f"{orders.stream}.*", "stream": orders.stream, "match": match}
    task = await submitter.start("clerk", json.dumps(source))
    await asleep(task)
    return task


async def got(task: Task) -> object:
    """Return the body that the task has got, once, and from where."""
    entries = await task.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert (len(arrivals(entries)), attempts(entries)) == (1, 2)
    found = json.loads(said(entries))
    assert found["subject"].endswith(".created")
    return found["body"]


async def test_the_first_event_that_matches_wakes_a_run_and_ends_its_trigger(
    fleet: TaskStates, tmp_path: Path
) -> None:
    orders = await Orders.make(fleet.bus, fleet.settings.prefix)
    submitter, store = TaskSubmitter(fleet.bus), TriggerStore(fleet.bus)
    await orders.publish({"id": 1, "total": 9})  # Before anybody waits.
    with working(fleet, tmp_path):
        async with taking(fleet), taking(fleet):
            one = await waiting(submitter, orders, **{"body.id": 1})
            two = await waiting(submitter, orders, **{"body.id": [2, 3]})
            large = await waiting(submitter, orders, **{"body.total": {"min": 1000}})
            assert len(await store.all()) == 3
            assert (await store.listed("default", "anonymous"))[0] == []
            for number in (4, 3, 1, 1, 2):
                await orders.publish({"id": number, "total": number}, of="a")
            assert await got(one) == {"id": 1, "total": 1}
            assert await got(two) == {"id": 3, "total": 3}
            assert not (await large.last()).ends_run
            body = {"id": 5, "total": 1000, "text": "x" * 20_000}
            await orders.publish(body)
            assert await got(large) == body

            async def are_gone() -> bool:
                return await store.all() == []

            await eventually(are_gone, "their triggers are gone")
            left = await waiting(submitter, orders, **{"body.id": 6})
            await cancel_task(fleet.bus, left.key, "gateway-test")
            await eventually(are_gone, "the trigger of the canceled task is gone")


async def test_an_event_wakes_though_triggers_and_the_worker_were_away_when_it_came(
    fleet: TaskStates, tmp_path: Path
) -> None:
    orders = await Orders.make(fleet.bus, fleet.settings.prefix)
    submitter = TaskSubmitter(fleet.bus)
    with working(fleet, tmp_path / "one") as worker:
        tasks = [await waiting(submitter, orders, **{"body.id": n}) for n in range(3)]
        await asyncio.to_thread(worker.kill)
    for number in range(3):
        await orders.publish({"id": number})
    async with taking(fleet):
        with working(fleet, tmp_path / "two"):
            for number, task in enumerate(tasks):
                assert await got(task) == {"id": number}


async def test_a_run_waits_for_the_events_of_a_stream_that_is_made_later(
    fleet: TaskStates, tmp_path: Path
) -> None:
    prefix = fleet.settings.prefix
    await fleet.bus.js.add_stream(
        StreamConfig(name=f"{prefix}-other", subjects=[f"{prefix}-other.>"])
    )
    submitter, unmade = TaskSubmitter(fleet.bus), Orders(fleet.bus, f"{prefix}-orders")
    with working(fleet, tmp_path):
        async with taking(fleet):
            missing = await waiting(submitter, unmade, **{"body.id": 1})
            source = {"subject": f"{prefix}-late.created", "stream": f"{prefix}-other"}
            without = await submitter.start("clerk", json.dumps(source))
            await asleep(without)

            async def is_counted() -> bool:
                return REGISTRY.get_sample_value("headrace_triggers_failing") == 1

            await eventually(is_counted, "the wait for the missing stream is counted")
            orders = await Orders.make(fleet.bus, prefix)
            both = [f"{prefix}-other.>", f"{prefix}-late.>"]
            await fleet.bus.js.update_stream(StreamConfig(name=f"{prefix}-other", subjects=both))
            await orders.publish({"id": 1})
            await fleet.bus.js.publish(f"{prefix}-late.created", b"2")
            assert await got(missing) == {"id": 1}
            assert await got(without) == 2


async def test_what_can_t_be_waited_for_fails_the_run_with_the_reason(
    fleet: TaskStates, tmp_path: Path
) -> None:
    submitter = TaskSubmitter(fleet.bus)
    own = f"{fleet.settings.prefix}.event.>"
    bad = [
        ({"subject": own, "stream": "EVENTS"}, f"subject '{own}' is none that the tenant may use"),
        ({"subject": ">", "stream": "ORDERS"}, "must be a NATS subject whose first token"),
        ({"subject": "a.b", "stream": "no stream"}, "stream: String should match pattern"),
        ({"subject": "a.b", "stream": "A", "match": {"x": 1}}, "must be subject, headers.NAME"),
        ({"subject": "a.b", "stream": 7}, "Subject needs texts and JSON"),
    ]
    with working(fleet, tmp_path):
        for source, why in bad:
            entries = await (await submitter.start("clerk", json.dumps(source))).ended()
            assert entries[-1].stamp.state == FAILED
            assert why in str(entries[-1].events[-1]), source
        source = {"subject": "a.b", "stream": "A"}
        task = await submitter.start_in(RunQueue("clerk", "acme"), json.dumps(source))
        assert "is none that the tenant may use" in str((await task.ended())[-1].events[-1])
    assert await TriggerStore(fleet.bus).all() == []
