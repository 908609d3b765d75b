"""Tasks that events on NATS begin: how many a second, and how soon their first events are seen."""

import asyncio
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nats
import orjson
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from headrace.client import Client
from tests.benchmarks.event_path import STREAM, SUBJECT, EventPath
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.runs import p99
from tests.benchmarks.whole import Json, check_events

_TIMEOUT = 120.0
_TRIGGER = {
    "name": "benchmark",
    "agent": "counter",
    "subject": SUBJECT,
    "stream": STREAM,
    "text": "{body.text}",
    "context": "{body.context}",
}


@dataclass(slots=True)
class _Task:
    """What is seen of the task of one event. Times are seconds of `time.perf_counter`."""

    sent: float
    events: list[Json] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, event: Json) -> None:
        """Keep an event, with its time."""
        self.arrivals.append(time.perf_counter())
        self.events.append(event)
        if "COMPLETED" in event.get("statusUpdate", {}).get("status", {}).get("state", ""):
            self.ended.set()

    def first(self, kind: str) -> float:
        """Return when the first event of that kind was seen."""
        seen = zip(self.events, self.arrivals, strict=True)
        return next(arrival for event, arrival in seen if kind in event)


class _Events:
    """Publishes events and sees what their tasks say."""

    def __init__(self, connection: Nats) -> None:
        self._connection = connection
        self._tasks: dict[str, _Task] = {}
        """By context."""

    async def on_message(self, message: Msg) -> None:
        """Keep the events of a message."""
        for event in map(orjson.loads, message.data.splitlines()):
            [body] = event.values()
            # Runs of other measurements may still have something to say.
            if task := self._tasks.get(body["contextId"]):
                task.see(event)

    async def publish(self, count: int) -> list[_Task]:
        """Publish events, and return their tasks once these have ended."""
        tasks = list[_Task]()
        for _ in range(count):
            context = str(uuid.uuid4())
            task = self._tasks[context] = _Task(time.perf_counter())
            body = orjson.dumps({"context": context, "text": "1"})
            await self._connection.publish(SUBJECT, body)
            tasks.append(task)
        async with asyncio.timeout(_TIMEOUT):
            for task in tasks:
                await task.ended.wait()
        for task in tasks:
            check_events(task.events, 1)
        return tasks


async def burst(place: Place) -> Sample:
    """Tasks per second, until the first event of each is seen, of events published at once."""
    async with _events(place) as events:
        tasks = await events.publish(place.sizes.events)
    details = {"first chunk": _per_second(tasks, "artifactUpdate")}
    return Sample(_per_second(tasks, "task"), len(tasks), details)


def _per_second(tasks: Sequence[_Task], kind: str) -> float:
    begun = min(task.sent for task in tasks)
    return len(tasks) / (max(task.first(kind) for task in tasks) - begun)


async def one_by_one(place: Place) -> Sample:
    """Milliseconds from an event to its task's first event, one at a time, median."""
    tasks = list[_Task]()
    async with _events(place) as events:
        for _ in range(place.sizes.first_events):
            await asyncio.sleep(place.sizes.pause)
            tasks += await events.publish(1)
    firsts, chunks = (_milliseconds(tasks, kind) for kind in ("task", "artifactUpdate"))
    details = {
        "p99": p99(firsts),
        "first chunk": statistics.median(chunks),
        "first chunk p99": p99(chunks),
    }
    return Sample(statistics.median(firsts), len(tasks), details)


def _milliseconds(tasks: Sequence[_Task], kind: str) -> list[float]:
    return [(task.first(kind) - task.sent) * 1000 for task in tasks]


@asynccontextmanager
async def _events(place: Place) -> AsyncIterator[_Events]:
    path = place.contestant.events
    assert path is not None
    connection = await nats.connect(path.nats_url)
    try:
        if path.gateway:
            await _make_trigger(connection, path)
        events = _Events(connection)
        await connection.subscribe(path.seen, cb=events.on_message)
        await connection.flush()
        yield events
    finally:
        await connection.close()


async def _make_trigger(connection: Nats, path: EventPath) -> None:
    await connection.jetstream().add_stream(name=STREAM, subjects=[SUBJECT])
    async with Client(path.gateway) as client:
        # Once: a trigger that is put again is another one, whose subscription begins anew.
        if not [one async for one in client.triggers.list()]:
            await client.triggers.apply(_TRIGGER)
