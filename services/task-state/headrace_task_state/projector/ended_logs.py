"""Logs of ended tasks in which something stands behind the end.

Nothing follows an end, but NATS can't forbid that to who may write in the log: a hostile worker of
the agent. Readers of a log from its beginning, and the view, ignore what is there. Readers of its
last entry alone can't know of the end, so it is appended once more, unchanged.
"""

import asyncio
import logging
from collections.abc import Iterable

from headrace.jetstream.connection import Bus
from headrace.log.read import from_leader, last_raw, next_stored, replay_as
from headrace.model.entry import Entry, parse_entry
from headrace.model.errors import (
    BusUnavailable,
    Fenced,
    HeadraceError,
    StateUnavailable,
    UndecodableMessage,
)
from headrace.model.task import TaskKey
from headrace.tasks.end import repeat_end
from headrace_task_state.projector.consumer import Arrival, read_directly
from headrace_task_state.projector.dead_letters import DeadLetters, letter
from headrace_task_state.store import Writer

_log = logging.getLogger(__name__)

_REST = 0.1
"""Seconds between two logs: who writes behind many ends delays only their repair."""

_REASON = "it stands behind the end of its task, which nothing follows"

_RETRY = 5.0
"""Seconds before a log is looked at again after NATS or the store did not answer."""

_TIMEOUT = 5.0

_MOST = 10_000
"""Maximum logs that wait to be looked at; the next entry behind an end brings a log back."""


class EndedLogs:
    """Repairs a range's logs that go on behind their end, beside what applies the range."""

    def __init__(self, bus: Bus, writer: Writer, letters: DeadLetters) -> None:
        """Look for ends through `writer`, and send a letter about what stands behind one."""
        self._bus, self._writer, self._letters = bus, writer, letters
        self._waiting: dict[TaskKey, None] = {}
        self._reported: dict[TaskKey, int] = {}
        """Stream sequences up to which what stands behind ends has its letters."""
        self._wake = asyncio.Event()

    def look_at(self, keys: Iterable[TaskKey]) -> None:
        """Have the logs of these ended tasks looked at: they have an entry behind the end."""
        for key in keys:
            if len(self._waiting) < _MOST:
                self._waiting[key] = None
                self._wake.set()

    async def run(self) -> None:
        """Look at what waits until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                await asyncio.sleep(await self._look(key))

    async def _look(self, key: TaskKey) -> float:
        """Look at one log; return after how many seconds the next one may follow."""
        try:
            await self._repair(key)
        except Fenced:
            # The entry that was appended meanwhile brings the log back.
            return _REST
        except HeadraceError as error:
            _log.warning("the end of task %s is not its log's last entry: %s", key.task, error)
            if isinstance(error, BusUnavailable | StateUnavailable):
                self.look_at([key])
                return _RETRY
        return _REST

    async def _repair(self, key: TaskKey) -> None:
        """Make the task's end the last entry of its log again.

        Raises:
            Fenced: another entry was appended meanwhile.
            HeadraceError: the log or the store does not answer.
        """
        if (end := await self._end_of(key)) is None:
            return
        message = await last_raw(self._bus, key, _TIMEOUT)
        if message is None:
            return
        last = from_leader(message)
        if last.is_tombstone or last.sequence <= end.sequence or _is_same(last.entry, end):
            return
        await self._report(key, end, last.sequence)
        await repeat_end(self._bus, end, key, last.sequence)

    async def _end_of(self, key: TaskKey) -> Entry | None:
        """Return the entry with which the view says that the task ended."""
        [fields] = await self._writer.fields(f"{key.tenant}:{key.task}")
        if fields.get("agent") != key.agent:
            return None
        sequence = int(fields["sequence"])
        found = await next_stored(self._bus, key, sequence - 1, _TIMEOUT)
        if found is None or found.sequence != sequence or found.entry is None:
            return None
        return found.entry if found.entry.ends_task else None

    async def _report(self, key: TaskKey, end: Entry, last: int) -> None:
        """Send a letter about each entry behind the end, up to sequence `last`, that had none."""
        if len(self._reported) >= _MOST:
            self._reported.clear()
        after = self._reported.get(key, end.sequence)
        async for arrivals in replay_as(self._bus, key, (after, last), read_directly):
            for arrival in arrivals:
                if (entry := _entry_in(arrival)) is not None and not _is_same(entry, end):
                    await self._letters.send(letter(arrival, _REASON))
                self._reported[key] = arrival.sequence


def _entry_in(arrival: Arrival) -> Entry | None:
    """Return the entry; None: it is none, which has its letter from who applies the range."""
    msg = arrival.msg
    try:
        return parse_entry(msg.subject, msg.headers, msg.data, arrival.sequence, "")
    except UndecodableMessage:
        return None


def _is_same(last: Entry | None, end: Entry) -> bool:
    return last is not None and (last.stamp, last.lines) == (end.stamp, end.lines)
