"""Build a view from the last entry of each log instead of all entries.

The last entry of an idle task contains what lists, lookups and duties need: its owner, its state
and since when it has it. The view is complete when these entries have been read. Histories and
artifacts are read from the logs meanwhile and filled in afterwards
(`maintenance/summary_completion.py`). Where the last entry is not enough (of a running task), the
whole log is read.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import batched

from headrace.jetstream.connection import Bus
from headrace.model.change import IllFormedEvent, TaskFields, read_change
from headrace.model.entry import Stamp, parse_lines
from headrace.model.errors import HeadraceError, UndecodableMessage
from headrace.model.task import INPUT_REQUIRED, RUN_OVER, TaskKey
from headrace_task_state.projector.batches import StoreBatch, continuation
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.dead_letters import letter
from headrace_task_state.projector.delta import fall_due, time_of
from headrace_task_state.projector.whole_log import WholeLog, read_whole_log
from headrace_task_state.store import SUMMARY, Progress, TaskChange, TaskRemoval, stored_fields

_PLAIN_END = re.compile(
    rb'\{"statusUpdate":\{"taskId":"[\w-]+","contextId":"([^"\\\x00-\x1f]+)",'
    rb'"status":\{"state":"(TASK_STATE_[A-Z_]+)","timestamp":"([0-9TZ:.+-]+)"\},'
    rb'"metadata":\{"headrace.generation":([1-9][0-9]{0,15})\}\}\}'
)

_READS = 32
"""Logs read concurrently."""

_WORTH = 2
"""Minimum last entries per log that must be read whole for summaries to be worthwhile."""

_FIRST_OF_ALL = 10**15
"""Milliseconds by which the completion of tasks that continue precedes that of ended ones."""


def summary_of(stamp: Stamp, arrival: Arrival, key: TaskKey) -> TaskChange | None:
    """Return what a log's last entry contains about its task; None: not enough.

    Raises:
        UndecodableMessage: it is not an entry.
    """
    owner, state = stamp.owner, stamp.state
    if (plain := _plain_end(stamp, arrival.msg.data)) is not None:
        last, context, standing = plain
    else:
        lines, events = parse_lines(arrival.msg.subject, stamp, arrival.msg.data)
        last, event = stamp.generation + len(lines) - 1, events[-1]
        if type(event) is not dict:
            return None
        try:
            change = read_change(event, last)
        except IllFormedEvent:
            return None
        context, standing = change.context, TaskFields()
        standing.apply(change)
        if standing.state != state:
            return None
    if not owner or state not in RUN_OVER or not context:
        return None
    task = TaskChange(key, stamp.log, begins=True, owner=owner, context=context, state=state)
    task.fields = {
        "log": stamp.log,
        "agent": key.agent,
        "owner": owner,
        "context": context,
        "generation": str(last),
        "sequence": str(arrival.sequence),
        "state": state,
        "run": str(stamp.run),
        SUMMARY: "1",
        **stored_fields(standing),
    }
    stored = arrival.time // 1_000_000
    task.time = time_of(standing.status, arrival.time)
    fall_due(task, stored, 0, 0)
    # The newest first: lists show them first.
    task.urgency = -stored - (_FIRST_OF_ALL if state == INPUT_REQUIRED else 0)
    return task


def _plain_end(stamp: Stamp, data: bytes) -> tuple[int, str, TaskFields] | None:
    """Return generation, context and fields of a body that is one status without a message.

    Most tasks end with such an event. To match it takes a third of the time of parsing and checking
    any event.

    Returns:
        None: it is another one, or differs from its `stamp`, or is encoded differently.
    """
    if (match := _PLAIN_END.fullmatch(data)) is None:
        return None
    try:
        context, state, timestamp, generation = (word.decode() for word in match.groups())
    except UnicodeDecodeError:
        return None
    if state != stamp.state or int(generation) != stamp.generation:
        return None
    status = {"state": state, "timestamp": timestamp}
    return stamp.generation, context, TaskFields(status=status, status_generation=stamp.generation)


class TooLittle(HeadraceError):
    """A view is built faster from all entries than from the last ones."""

    code = "too_little"


class Summaries:
    """Builds batches of a range from its logs' last entries."""

    def __init__(self, bus: Bus, timeout: float, silence: float) -> None:
        """Read logs on `bus`; `timeout` and `silence` as for `Batches`."""
        self._bus, self._timeout, self._silence = bus, timeout, silence
        self._has_started = False

    async def build(self, arrivals: Sequence[Arrival], at: Progress) -> StoreBatch:
        """Return the changes of `arrivals`, of which only the last one of each log counts.

        Raises:
            TooLittle: most logs of the first batch must be read whole.
            BusUnavailable: logs can't be read.
        """
        batch = StoreBatch(at)
        unclear: list[tuple[TaskKey, int]] = []
        for arrival in {arrival.msg.subject: arrival for arrival in arrivals}.values():
            try:
                key = self._bus.subjects.key_of_event(arrival.msg.subject)
            except UndecodableMessage as error:
                batch.letters.append(letter(arrival, error.reason))
                continue
            if arrival.is_tombstone:
                batch.changes.append(TaskRemoval(key, arrival.time // 1_000_000))
                batch.has_tombstones = True
                continue
            batch.touched.append(key)
            try:
                summary = summary_of(arrival.stamp(), arrival, key)
            except UndecodableMessage:
                summary = None
            if summary is None:
                unclear.append((key, arrival.sequence))
            else:
                batch.changes.append(summary)
        if not self._has_started and len(unclear) * _WORTH > len(arrivals):
            raise TooLittle(
                f"{len(unclear)} of {len(arrivals)} last entries lack the fields of a summary"
            )
        self._has_started = True
        await self._read(unclear, batch)
        return batch

    async def _read(self, unclear: list[tuple[TaskKey, int]], batch: StoreBatch) -> None:
        for some in batched(unclear, _READS):
            read = await asyncio.gather(*(self._read_log(*one) for one in some))
            for (key, head), whole in zip(some, read, strict=True):
                batch.letters += whole.letters
                if whole.task is not None:
                    batch.changes.append(whole.task)
                if whole.continues:
                    batch.changes.append(continuation(key, head))

    async def _read_log(self, key: TaskKey, head: int) -> WholeLog:
        return await read_whole_log(self._bus, key, head, self._timeout, self._silence)

    async def replacement(
        self, key: TaskKey, head: int, agent: str, other_head: int
    ) -> TaskChange | None:
        """Return the task at `key` if its log began before the log of the same id under `agent`.

        Each log is read up to its head, a stream sequence.

        Raises:
            BusUnavailable: a log can't be read.
        """
        mine, theirs = await asyncio.gather(
            self._read_log(key, head), self._read_log(key._replace(agent=agent), other_head)
        )
        if mine.task is None or (
            theirs.task is not None and theirs.first_sequence < mine.first_sequence
        ):
            return None
        return replace(mine.task, replaces=agent)
