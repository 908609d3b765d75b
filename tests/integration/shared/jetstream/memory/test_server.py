"""NATS in memory answers as nats-server does, in all that `headrace.testing` builds on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.api import get_message, stream_info, stream_state
from headrace.jetstream.client import ReceivedMessage, StreamPosition
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import (
    ACK,
    consumer_info,
    consumer_names,
    nak,
    pull_request,
    pull_subject,
)
from headrace.jetstream.headers import STATUS
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.jetstream.purge import erase
from headrace.log import TailRule, first_entry, last_entry
from headrace.log.append import FencedBy
from headrace.log.thread import ThreadKey, open_logs
from headrace.model.errors import FileUnknown, NobodyListens
from headrace.model.queues import RunQueue
from headrace.model.run import Run
from headrace.model.task import COMPLETED, TaskKey, mint_task_id, thread_token
from headrace.tasks.runs import RunRequests
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog, confirmed_tails, following, generations
from tests.support.waiting import eventually

type Scenario = Callable[[Bus], Awaitable[object]]


@pytest.fixture
async def memory() -> AsyncIterator[Bus]:
    """A connection to a server in memory."""
    async with memory_bus() as bus:
        yield bus


async def _append(bus: Bus) -> object:
    """Append, be fenced, read what is there, from both ends and in batches."""
    log = TaskLog(bus)
    await log.begin()
    last = await last_entry(bus, log.key)
    assert last is not None
    other = log.behind(last, writer="other")
    await log.grow(10, batch=3)
    with pytest.raises(FencedBy) as fenced:
        await other.append("late")
    first = await first_entry(bus, log.key)
    return (
        generations(await log.read()),
        generations([fenced.value.entry]),
        first and first.stamp.owner,
        [entry.sequence for entry in await log.read()],
    )


async def _follow(bus: Bus) -> object:
    """Follow a log while it grows."""
    log, rule = TaskLog(bus), TailRule(bus)
    await rule.start()
    async with following(bus, rule, log.key) as reading:
        await log.begin()
        await log.grow(20)
        found = await reading.until(20)
    await rule.stop()
    return found


async def _republish(bus: Bus) -> object:
    """Look at the headers of a live message, whose order readers rely on."""
    log, live = TaskLog(bus), asyncio.Queue[Msg]()
    await bus.listen(bus.subjects.live(log.key), live.put_nowait)
    await log.begin()
    async with asyncio.timeout(60):
        msg = await live.get()
    assert isinstance(msg, ReceivedMessage)
    return list(msg.headers or {}), StreamPosition.read(msg.block) is not None


async def _find_nothing(bus: Bus) -> object:
    """Ask for a log that does not exist, and for one that was purged."""
    log = TaskLog(bus)
    before = await last_entry(bus, log.key)
    await log.begin()
    await erase(bus, log.stream, log.subject)
    keys = [TaskKey("default", "agent", mint_task_id(3)) for _ in range(12)]
    state = await stream_state(bus, log.stream)
    missing = await get_message(bus, log.stream, {"seq": 1})
    lasts = await confirmed_tails(bus, [log.key, *keys])
    return before, await last_entry(bus, log.key), state.last, missing, set(lasts.values())


async def _threads(bus: Bus) -> object:
    """Ask for the open logs of a thread."""
    token, of = thread_token("owner", "context"), ThreadKey("default", "agent", "owner", "context")
    keys = [TaskKey("default", "agent", mint_task_id(3, token)) for _ in range(3)]
    logs = [TaskLog(bus, key) for key in keys]
    before = await open_logs(bus, of)
    for log in logs:
        await log.begin()
        await log.grow(3)
    await logs[1].append("done", state=COMPLETED)
    found: list[TaskKey] = []

    async def are_found() -> bool:
        found[:] = [end.key for end in await open_logs(bus, of) or ()]
        return bool(found)

    await eventually(are_found, "a replica has the logs")
    return before, [keys.index(key) for key in found]


async def _bucket(bus: Bus) -> object:
    """Put, change, list and delete keys."""
    bucket = Bucket(bus, bus.streams.push)
    at = await bucket.put("a.b", b"one", 0)
    with pytest.raises(KeyChanged):
        await bucket.put("a.b", b"two", 0)
    await bucket.put("a.b", b"three", at)
    await bucket.put("a.c", b"four", 0)
    await bucket.delete("a.c")
    keys = sorted(await bucket.keys())

    async def is_copied() -> bool:
        # Replicas hear of a change a moment later.
        return {key: one.data for key, one in (await bucket.copy()).items()} == {"a.b": b"three"}

    await eventually(is_copied, "a replica has the bucket as it is")
    under = [(key, value.data) for key, value in await bucket.under("a.*")]
    return keys, under, (await bucket.get("a.b")).data, (await bucket.get("a.c")).data


async def _files(bus: Bus) -> object:
    """Store a file in chunks, read it and drop it."""
    store, owner = FileStore(bus), FileOwner("owner", "context")
    key = TaskKey("default", "agent", mint_task_id(3))
    content = bytes(range(256)) * 2000
    link = await store.put(key, owner, content, "a.bin", "image/png")
    read = await store.read(link, "default", owner)
    with pytest.raises(FileUnknown):
        await store.read(link, "default", FileOwner("else", "context"))
    await store.drop(key)
    with pytest.raises(FileUnknown):
        await store.read(link, "default", owner)
    return read == content


class _Queue:
    """A queue of runs, and what it hands out."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.key = bus, TaskKey("default", "agent", mint_task_id(3))
        self.queue = RunQueue("agent")
        self._arrived = asyncio.Queue[Msg]()

    async def open(self) -> None:
        """Listen for what is pulled."""
        self.inbox = self.bus.connection.new_inbox()
        await self.bus.listen(self.inbox, self._arrived.put_nowait)

    async def publish(self) -> bool:
        """Publish the run; return whether it is new."""
        return await RunRequests(self.bus).publish(Run(self.key, 1, "log", "context", "owner"))

    async def pull(self, expires: float = 5.0) -> Msg:
        """Return what one pull request brings."""
        subject = pull_subject(self.bus.streams.runs, self.queue.consumer)
        async with asyncio.timeout(60):
            while True:
                await self.bus.publish(subject, pull_request(1, expires), self.inbox)
                msg = await self._arrived.get()
                # A node hears a moment later where a new consumer's leader is.
                if (msg.headers or {}).get(STATUS) != "503":
                    return msg


async def _queue(bus: Bus) -> object:
    """Publish a run twice, give it back, acknowledge it and look for more."""
    queue = _Queue(bus)
    await queue.open()
    is_new = await queue.publish(), await queue.publish()
    first = await queue.pull()
    held = (await consumer_info(bus, bus.streams.runs, queue.queue.consumer))["num_ack_pending"]
    await bus.publish(first.reply, nak())
    second = await queue.pull()
    await bus.publish(second.reply, ACK)
    none = await queue.pull(expires=0.0)
    later = await queue.pull(expires=0.05)
    left = (await stream_info(bus, bus.streams.runs, {"subjects_filter": ">"}))["state"]
    return (
        is_new,
        first.subject == second.subject == bus.subjects.run(queue.key, 1),
        (first.metadata.num_delivered, second.metadata.num_delivered),
        held,
        (none.headers or {})[STATUS],
        (later.headers or {})[STATUS],
        left["messages"],
        await consumer_names(bus, bus.streams.runs),
    )


async def _ask(bus: Bus) -> object:
    """Ask who answers, and who does not."""
    async with bus.answering("headrace.test.question"):
        answer = await bus.request("headrace.test.question", b"", 5.0)
    with pytest.raises(NobodyListens):
        await bus.request("headrace.test.question", b"", 5.0)
    return answer.data


SCENARIOS = [_append, _follow, _republish, _find_nothing, _threads, _bucket, _files, _queue, _ask]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__.strip("_"))
async def test_memory_answers_as_nats_server_does(
    memory: Bus, own: Bus, scenario: Scenario
) -> None:
    assert await scenario(memory) == await scenario(own)
