"""Logs of ended tasks in which something stands behind the end.

Nothing follows an end, but NATS can't forbid that to who may write in the log: a hostile worker of
the agent. Readers of a log from its beginning, and the view, ignore what is there. Readers of its
last entry alone can't know of the end, so it is appended once more, unchanged.
"""

import asyncio
import logging
from contextlib import suppress

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
from headrace_task_state.store import LARGEST_NUMBER, DueList, Fields, LeaseLost, Writer, key_of

_log = logging.getLogger(__name__)

_REST = 0.1
"""Seconds between two logs: who writes behind many ends delays only their repair."""

_REASON = "it stands behind the end of its task, which nothing follows"

_RETRY = 5.0
"""Seconds before logs are looked at again after NATS or the store did not answer."""

_INTERVAL = 30.0
"""Seconds after which the list is read without a reason: completed summaries may be on it."""

_TIMEOUT = 5.0

_MOST = 10_000
"""Maximum logs in a pass, and logs of which is remembered what was reported."""


class EndedLogs:
    """Repairs a range's logs that go on behind their end, beside what applies the range.

    The store lists them with the write that passes what stands there, so that whoever has the range
    next goes on with what is left.
    """

    def __init__(self, bus: Bus, writer: Writer, letters: DeadLetters) -> None:
        """Look for ends through `writer`, and send a letter about what stands behind one."""
        self._bus, self._writer, self._letters = bus, writer, letters
        self._reported: dict[TaskKey, int] = {}
        """Stream sequences up to which what stands behind ends has its letters."""
        self._wake = asyncio.Event()
        self._wake.set()

    def wake(self) -> None:
        """Have the logs on the list looked at."""
        self._wake.set()

    async def run(self) -> None:
        """Look at what is listed until cancelled, or until the lease is lost."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _INTERVAL)
            self._wake.clear()
            try:
                is_done = await self._go_through()
            except LeaseLost:
                return
            except StateUnavailable as error:
                _log.warning("ends of tasks are repaired later: %s", error)
                is_done = False
            if not is_done:
                await asyncio.sleep(_RETRY)
                self._wake.set()

    async def _go_through(self) -> bool:
        """Look at each log once; return False if NATS did not answer for one.

        Raises:
            LeaseLost, StateUnavailable: as the store.
        """
        is_done = True
        for name in await self._writer.due(DueList.CONTINUED, LARGEST_NUMBER, _MOST):
            is_done = await self._look(name) and is_done
            await asyncio.sleep(_REST)
        return is_done

    async def _look(self, name: str) -> bool:
        """Look at one log, and remove it from the list; return False if NATS does not answer.

        Raises:
            LeaseLost, StateUnavailable: as the store.
        """
        [fields] = await self._writer.fields(name)
        try:
            settled = await self._repair(name, fields) if fields else LARGEST_NUMBER
        except Fenced:
            # The entry that was appended meanwhile brings the log back.
            return True
        except HeadraceError as error:
            _log.warning("the end of task %s is not its log's last entry: %s", name, error)
            if isinstance(error, BusUnavailable):
                return False
            settled = LARGEST_NUMBER
        await self._writer.settle(name, settled)
        return True

    async def _repair(self, name: str, fields: Fields) -> int:
        """Make the task's end the last entry of its log again.

        Return the stream sequence up to which nothing is left to do.

        Raises:
            Fenced: another entry was appended meanwhile.
            HeadraceError: the log does not answer, or can't be repaired.
        """
        key = key_of(name, fields["agent"])
        end = await self._end_of(key, int(fields["sequence"]))
        message = await last_raw(self._bus, key, _TIMEOUT)
        if end is None or message is None:
            return LARGEST_NUMBER
        last = from_leader(message)
        if not (last.is_tombstone or last.sequence <= end.sequence or _is_same(last.entry, end)):
            await self._report(key, end, last.sequence)
            await repeat_end(self._bus, end, key, last.sequence)
        return last.sequence

    async def _end_of(self, key: TaskKey, sequence: int) -> Entry | None:
        """Return the entry there, with which the view says that the task ended."""
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
