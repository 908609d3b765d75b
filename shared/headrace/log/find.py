"""Finding entries in a log: the first one, the last one, and the one that holds an event."""

from sys import maxsize

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.log.read import Stored, get_batch, last_stored, next_stored
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown
from headrace.model.task import TaskKey, check_task_id
from headrace.wait_for import ELECTION


async def first_entry(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> Entry | None:
    """Return the oldest entry that the log still has, as the leader knows it; None: none.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    sequence = 0
    while (stored := await next_stored(bus, key, sequence, timeout)) is not None:
        if stored.entry is not None:
            return stored.entry
        sequence = stored.sequence
    return None


async def last_entry(bus: Bus, key: TaskKey, timeout: float = ELECTION) -> Entry | None:
    """Return the log's last entry as the leader knows it; None: the log is empty or forgotten.

    Raises:
        BusUnavailable: no leader answered within `timeout` seconds.
    """
    last = await last_stored(bus, key, timeout)
    if last is None or last.is_tombstone or last.entry is not None:
        return last.entry if last else None
    # Rare: the last message is no entry. Nothing leads back from it, so this searches by halves.
    search, found = _Search(bus, key), None
    older, newest = 0, last.sequence
    while older < newest:
        middle = (older + newest) // 2
        entry = await search.entry_after(middle)
        if entry is None:
            newest = middle
        else:
            found, older = entry, entry.sequence
    return found


async def find_generation(bus: Bus, key: TaskKey, generation: int, last: Entry) -> int:
    """Return a stream sequence after which the entry with `generation` is the next one.

    Entries hold several events each, so generations are no sequences: this searches the stream
    by halves, each step one get (about 0.3 ms), never reading the log from its start. `last` is
    the log's last entry, and `generation` is at most its last. Where a copy has not yet heard of a
    purge, the entry found may be gone already: look at what the replay from there begins with.

    Raises:
        LogLost: that part of the log is gone.
        BusUnavailable: the stream does not answer.
    """
    search = _Search(bus, key)
    older, newest = 0, last.sequence
    while older < newest:
        middle = (older + newest) // 2
        entry = await search.entry_after(middle)
        if entry is None or entry.generation > generation:
            newest = middle
        elif entry.last_generation < generation:
            older = entry.sequence
        else:
            return entry.sequence - 1
    raise LogLost(f"generation {generation} of {key.task} is gone")


class _Search:
    def __init__(self, bus: Bus, key: TaskKey) -> None:
        self._bus, self._key = bus, key
        self._trusting = True

    async def entry_after(self, sequence: int) -> Entry | None:
        while (stored := await self._stored_after(sequence)) is not None:
            if stored.entry is not None:
                return stored.entry
            sequence = stored.sequence
        return None

    async def _stored_after(self, sequence: int) -> Stored | None:
        if self._trusting:
            if batch := await get_batch(self._bus, self._key, sequence + 1, size=1):
                return batch[0]
            # A stale copy, or a frozen one, of which one in a search is enough; or nothing there,
            # which only the leader can say.
            self._trusting = False
        return await next_stored(self._bus, self._key, sequence)


async def locate(bus: Bus, task: str) -> TaskKey:
    """Return whose task `task` is, and which agent's; for operators, who may see everybody's.

    Raises:
        InvalidName: `task` has not the form of a task id.
        TaskUnknown: there is no such log.
        BusUnavailable: the stream does not answer, for longer than an election takes.
    """
    key = TaskKey("*", "*", check_task_id(task))
    stream = bus.streams.of_shard(key.shard)
    query = {"subjects_filter": bus.subjects.event(key)}
    answer = await until_answered(bus, lambda: stream_info(bus, stream, query))
    keys = [bus.subjects.key_of_event(one) for one in answer["state"].get("subjects") or {}]
    if not keys:
        raise TaskUnknown(f"there is no task {task}")
    if len(keys) == 1:
        return keys[0]
    # A hostile worker may write under the id of another agent's task. It learns of the id from the
    # task's log: the older one is the task's.
    begun = {key: await next_stored(bus, key, 0) for key in keys}
    return min(keys, key=lambda key: found.sequence if (found := begun[key]) else maxsize)
