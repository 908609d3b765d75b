"""Write and follow one task's log as workers and gateways do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress

from headrace.jetstream.api import store_with_retries
from headrace.jetstream.connection import Bus
from headrace.log import Follower, LogWriter, TailRule, last_entry, replay
from headrace.log.append import AppendResult
from headrace.log.tail_rule import tails_of
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable, LogLost, LogTooNew
from headrace.model.events import Draft
from headrace.model.subjects import stream_of_shard
from headrace.model.task import RUN_ENDED, SUBMITTED, WORKING, TaskKey, mint_log_id, mint_task_id
from tests.support.jetstream_api import answered
from tests.support.waiting import eventually

TIMEOUT = 60.0
"""Bound on hangs, seconds; well above an election."""


class TaskLog:
    """One writer's view of a task's log, from generation 1."""

    def __init__(self, bus: Bus, key: TaskKey | None = None, *, writer: str = "writer") -> None:
        """Write a new task's log over `bus`, or that of `key`."""
        self.bus = bus
        self.key = key or TaskKey("default", "agent", mint_task_id(3))
        self.id = mint_log_id()
        self.name = writer
        self.writer = LogWriter(bus, self.key)

    @property
    def subject(self) -> str:
        """Where the log is."""
        return self.bus.subjects.event(self.key)

    @property
    def stream(self) -> str:
        """The stream that it is in."""
        return self.bus.streams.of_shard(self.key.shard)

    def behind(self, last: Entry, *, bus: Bus | None = None, writer: str) -> "TaskLog":
        """Return another writer of the same log, which begins behind `last`."""
        other = TaskLog(bus or self.bus, self.key, writer=writer)
        other.id = self.id
        other.writer = LogWriter.after(other.bus, other.key, last)
        return other

    def stamp(self, state: str = WORKING) -> Stamp:
        """Return the stamp of the next entry."""
        generation = self.writer.generation + 1
        owner = "owner" if generation == 1 or state in RUN_ENDED else None
        return Stamp(self.id, generation, self.name, state, 1, owner=owner)

    def text_event(self, text: str, state: str = WORKING) -> Draft:
        """Return an event that says `text`, in `state`."""
        message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
        return events.status_update(self.key.task, "context", state, message)

    async def begin(self) -> AppendResult:
        """Append generation 1."""
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        draft = events.task_submitted(self.key.task, "context", message)
        return await self.writer.append([draft], self.stamp(SUBMITTED))

    async def append(
        self, *texts: str, state: str = WORKING, timeout: float = TIMEOUT
    ) -> AppendResult:
        """Append one message with an event per text, the last one in `state`."""
        *before, last = texts
        drafts = [*map(self.text_event, before), self.text_event(last, state)]
        return await self.writer.append(drafts, self.stamp(state), timeout)

    async def grow(self, to: int, batch: int = 1) -> None:
        """Append messages of `batch` events until the log ends at generation `to`."""
        while self.writer.generation < to:
            first = self.writer.generation + 1
            await self.append(*(f"event {g}" for g in range(first, min(first + batch, to + 1))))

    async def junk(self, headers: dict[str, str] | None = None, body: bytes = b"junk") -> int:
        """Store what is no entry; return its sequence."""
        return await store_with_retries(self.bus, self.subject, body, headers)

    async def purge(self, keep: int | None = None) -> None:
        """Purge the log as retention does (`keep` 1), or as nobody should."""
        await answered(
            lambda: self.bus.js.purge_stream(self.stream, subject=self.subject, keep=keep)
        )

    async def read(self) -> list[Entry]:
        """Return every entry, at least up to the last one of this writer."""
        last = await last_entry(self.bus, self.key)
        assert last is not None
        # A leader that has just thawed answers what it knew when it froze.
        head = max(last.sequence, self.writer.sequence)
        return [e async for batch in replay(self.bus, self.key, 0, head) for e in batch]


def generations(entries: Sequence[Entry]) -> list[int]:
    """Return the generation of every event of `entries`."""
    return [g for entry in entries for g in range(entry.generation, entry.last_generation + 1)]


def texts(entries: Sequence[Entry]) -> list[str]:
    """Return what the events of `entries` say that `TaskLog.says` built."""
    statuses = [
        e["statusUpdate"]["status"]
        for entry in entries
        for e in entry.events
        if "statusUpdate" in e
    ]
    return [status["message"]["parts"][0]["text"] for status in statuses if "message" in status]


class Reading:
    """A follower and what it has handed on."""

    def __init__(self, bus: Bus, rule: TailRule, key: TaskKey) -> None:
        """Follow `key`'s log."""
        self.entries: list[Entry] = []
        self.losses: list[LogLost | LogTooNew] = []
        self.follower = Follower(bus, rule, key, self._deliver, self._lose)
        self._changed = asyncio.Event()

    @property
    def generations(self) -> list[int]:
        """The generation of every event that came."""
        return generations(self.entries)

    async def until(self, generation: int, timeout: float = TIMEOUT) -> list[int]:
        """Wait for the event with `generation`; return all that came."""
        await self._until(lambda: self.generations[-1:] >= [generation], timeout)
        return self.generations

    async def until_lost(self, timeout: float = TIMEOUT) -> LogLost | LogTooNew:
        """Wait for the loss."""
        await self._until(lambda: bool(self.losses), timeout)
        return self.losses[0]

    async def _until(self, holds: Callable[[], bool], timeout: float) -> None:
        async with asyncio.timeout(timeout):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def _deliver(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._changed.set()

    def _lose(self, loss: LogLost | LogTooNew) -> None:
        self.losses.append(loss)
        self._changed.set()


@asynccontextmanager
async def following(
    bus: Bus, rule: TailRule, key: TaskKey, after: int = 0
) -> AsyncIterator[Reading]:
    """Follow a log for the length of a block, from behind stream sequence `after`."""
    reading = Reading(bus, rule, key)
    await reading.follower.subscribe()
    reading.follower.begin(after)
    try:
        yield reading
    finally:
        reading.follower.stop()


async def confirmed_tails(bus: Bus, keys: Iterable[TaskKey]) -> dict[TaskKey, int]:
    """Return the logs' last sequences once the leader tells them: a busy one is asked again."""
    found: dict[TaskKey, int] = {}
    keys = list(keys)

    async def are_confirmed() -> bool:
        found.clear()
        with suppress(BusUnavailable):
            for stream in {stream_of_shard(key.shard) for key in keys}:
                of_stream = [key for key in keys if stream_of_shard(key.shard) == stream]
                found.update((await tails_of(bus, of_stream)).last)
        return len(found) == len(keys)

    await eventually(are_confirmed, "the leader tells the logs' last sequences")
    return found
