"""Finding the entry with a given event in a log, and the log of a task of unknown agent."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from sys import maxsize

from headrace.jetstream.api import stream_info, until_answered
from headrace.jetstream.connection import Bus
from headrace.log.read import EntrySearch, next_stored
from headrace.model.entry import Entry
from headrace.model.errors import LogLost, TaskUnknown, UndecodableMessage
from headrace.model.task import TaskKey, check_task_id


async def find_generation(bus: Bus, key: TaskKey, generation: int, last: Entry) -> int:
    """Return a stream sequence after which the entry with `generation` is the next one.

    Entries hold several events each, so generations are not sequences. This is a binary search of
    the stream with one get per step (about 0.3 ms); the log is never read from its start. `last` is
    the log's last entry, and `generation` is at most its last generation. A replica may lack
    a purge yet, so the entry may be gone already: check the first entry of the replay from there.

    Raises:
        LogLost: That part of the log is gone.
        BusUnavailable: The stream does not answer.
    """
    search = EntrySearch(bus, key)
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


async def locate(bus: Bus, task: str) -> TaskKey:
    """Return the key of task `task`. For operators, who may see all tenants' tasks.

    Raises:
        InvalidName: `task` is not a valid task id.
        TaskUnknown: The task has no log.
        BusUnavailable: The stream did not answer for longer than an election takes.
    """
    key = TaskKey("*", "*", check_task_id(task))
    stream = bus.streams.of_shard(key.shard)
    query = {"subjects_filter": bus.subjects.event(key)}
    answer = await until_answered(bus, lambda: stream_info(bus, stream, query))
    keys = list(_keys(bus, answer["state"].get("subjects") or {}))
    if not keys:
        raise TaskUnknown(f"task {task} does not exist")
    if len(keys) == 1:
        return keys[0]
    # A hostile worker may write under the id of another agent's task. It learns the id from the
    # task's log, so the older log is the task's.
    first = {key: await next_stored(bus, key, 0) for key in keys}
    return min(keys, key=lambda key: found.sequence if (found := first[key]) else maxsize)


def _keys(bus: Bus, subjects: Iterable[str]) -> Iterator[TaskKey]:
    """Yield the keys of those of `subjects` that can be logs'."""
    for subject in subjects:
        with suppress(UndecodableMessage):
            yield bus.subjects.key_of_event(subject)
