"""What must hold of a task when all is over, and where it does not."""

import itertools
from collections.abc import Iterator

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import INPUT_REQUIRED, TERMINAL, TaskKey
from headrace_task_state.queries.found import read_found
from headrace_task_state.store_redis.reading import Reader
from tests.chaos.client import Client
from tests.chaos.families import Families


class Judge:
    """Compares logs with what clients saw and with what Redis holds."""

    def __init__(self, bus: Bus, redis: Reader) -> None:
        """Look over `bus` and into `redis`."""
        self._bus, self._redis = bus, redis
        self.families = Families()
        self.attempts = 0
        """Attempts beyond the first, over all tasks judged."""

    async def of_client(self, client: Client) -> list[str]:
        """Return what is wrong with a client's task."""
        key = TaskKey("default", client.agent, client.task)
        entries = await self._entries(key)
        self.families.note(key, entries)
        found = [*overlaps(entries), *ends(entries)]
        if client.data != [line for entry in entries for line in entry.lines]:
            found.append(f"the client saw {len(client.data)} events, and not those of the log")
        task = _folded(entries).task()
        if client.state == "COMPLETED" and _text(task) != client.expected:
            found.append(f"{client.text!r} was answered with {_text(task)!r}")
        elif client.state not in {"COMPLETED", "CANCELED"} or (
            client.state == "CANCELED" and not client.cancels
        ):
            found.append(f"it ended as {client.state}: {task['status']}")
        return [f"{key.agent} {key.task}: {each}" for each in found + await self._view(key, task)]

    async def of_orphan(self, key: TaskKey) -> list[str]:
        """Return what is wrong with a task whose client never learned of it."""
        entries = await self._entries(key)
        self.families.note(key, entries)
        found = [*overlaps(entries), *ends(entries)]
        found += await self._view(key, _folded(entries).task())
        return [f"{key.agent} {key.task}, which no client follows: {each}" for each in found]

    async def _entries(self, key: TaskKey) -> list[Entry]:
        last = await last_entry(self._bus, key)
        head = last.sequence if last else 0
        entries = [e async for batch in replay(self._bus, key, 0, head) for e in batch]
        attempts = {(entry.stamp.leg, entry.stamp.attempt) for entry in entries}
        self.attempts += sum(attempt > 1 for _, attempt in attempts)
        return entries

    async def _view(self, key: TaskKey, task: Json) -> list[str]:
        stored = await self._redis.task(key.tenant, key.task)
        if stored is None:
            return ["Redis does not have it"]
        return [] if read_found(stored).fold.task() == task else ["Redis has it otherwise"]


def overlaps(entries: list[Entry]) -> Iterator[str]:
    """Yield where a worker wrote after another had taken over, or two were the same attempt."""
    worked = [entry.stamp for entry in entries if entry.stamp.attempt]
    holds = [(stamp.leg, stamp.attempt) for stamp in worked]
    if holds != sorted(holds):
        yield f"attempts overlap: {[hold for hold, _ in itertools.groupby(holds)]}"
    writers = dict[tuple[int, int], str]()
    for hold, stamp in zip(holds, worked, strict=True):
        # A gateway that queues a message over the head of a holder leaves the attempt as it is.
        if writers.setdefault(hold, stamp.writer) != stamp.writer:
            yield f"attempt {hold} has two writers: {writers[hold]} and {stamp.writer}"


def ends(entries: list[Entry]) -> Iterator[str]:
    """Yield where a log does not end once, at its end."""
    states = [entry.stamp.state for entry in entries]
    terminal = [state for state in states if state in TERMINAL]
    if len(terminal) > 1 or (terminal and states[-1] not in TERMINAL):
        yield f"it has terminal states within: {terminal}"
    if states[-1] not in TERMINAL | {INPUT_REQUIRED}:
        yield f"it has not ended: {states[-1]}"


def _folded(entries: list[Entry]) -> TaskFold:
    fold = TaskFold()
    for entry in entries:
        fold.apply_entry(entry)
    return fold


def _text(task: Json) -> str:
    parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    return "".join(part.get("text", "") for part in parts)
