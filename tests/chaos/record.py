"""Copies of all logs, made while they are written: retention erases them during the run."""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field

from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SUBJECT
from headrace.log.read import LogMessage, from_message
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.step import StepRecord
from headrace.model.task import INPUT_REQUIRED, TERMINAL, TaskKey
from tests.support.resuming_log import WholeLog

_log = logging.getLogger(__name__)

_EACH = 500
_EACH_BYTES = 4 * 1024 * 1024
_PAUSE = 0.1


@dataclass(slots=True)
class Log:
    """The copy of one task's log."""

    key: TaskKey
    entries: list[Entry] = field(default_factory=list)
    erased: str = ""
    """Reason in its tombstone; empty if it has none."""

    @property
    def is_erased(self) -> bool:
        """Whether it has a tombstone."""
        return bool(self.erased)

    @property
    def is_whole(self) -> bool:
        """Whether all of it was copied before it was erased."""
        following = 1
        for entry in self.entries:
            if entry.generation != following:
                return False
            following = entry.last_generation + 1
        # A deleted task is canceled first, and erased at once.
        return bool(self.entries) and (
            not self.is_deleted or self.entries[-1].stamp.state in TERMINAL
        )

    @property
    def is_deleted(self) -> bool:
        """Whether its client deleted it."""
        return self.erased == "deleted"

    @property
    def has_ended(self) -> bool:
        """Whether its task has ended."""
        return self.is_erased or self.entries[-1].stamp.state in TERMINAL

    @property
    def is_at_rest(self) -> bool:
        """Whether its task has ended or is waiting for its user."""
        return self.has_ended or self.entries[-1].stamp.state == INPUT_REQUIRED

    @property
    def context(self) -> str:
        """Its context's id."""
        return str(self.entries[0].events[0]["task"]["contextId"])

    def lines(self) -> list[bytes]:
        """Return its events, byte by byte."""
        return [line for entry in self.entries for line in entry.lines]

    def records(self) -> list[StepRecord]:
        """Return the records of its steps and waits."""
        found = (
            StepRecord.decode(entry.stamp.step, entry.last_generation)
            for entry in self.entries
            if entry.stamp.step is not None
        )
        return [record for record in found if record is not None]

    def whole(self) -> WholeLog:
        """Return the log as clients receive it."""
        events = [event for entry in self.entries for event in entry.events]
        return WholeLog(self.entries[0].stamp.log, events)

    def task(self) -> Json:
        """Return the task that it folds to."""
        fold = TaskFold()
        for entry in self.entries:
            fold.apply_entry(entry)
        return fold.task()


class Record:
    """The copies of all logs of a fleet."""

    def __init__(self, bus: Bus) -> None:
        """Copy from `bus`."""
        self.logs = dict[str, Log]()
        """By task id."""
        self._bus, self._reached = bus, 0

    async def keep(self) -> None:
        """Copy new messages until cancelled."""
        while True:
            with suppress(BusUnavailable):
                if await self._copy():
                    continue
            await asyncio.sleep(_PAUSE)

    async def _copy(self) -> bool:
        """Copy a batch of stored messages; return whether there may be more."""
        query = {
            "batch": _EACH,
            "seq": self._reached + 1,
            "next_by_subj": f"{self._bus.subjects.prefix}.event.>",
            "max_bytes": _EACH_BYTES,
        }
        answer = await direct_get(self._bus, self._bus.streams.events(0), query, _subject_and)
        for subject, stored in answer.messages:
            self._take(self._bus.subjects.key_of_event(subject), stored)
            self._reached = stored.sequence
        return len(answer.messages) > _EACH // 2

    def _take(self, key: TaskKey, stored: LogMessage) -> None:
        log = self.logs.setdefault(key.task, Log(key))
        if stored.tombstone is not None:
            log.erased = stored.tombstone.why
        if stored.entry is not None:
            log.entries.append(stored.entry)


def _subject_and(msg: Msg) -> tuple[str, LogMessage]:
    return (msg.headers or {})[SUBJECT], from_message(msg)
