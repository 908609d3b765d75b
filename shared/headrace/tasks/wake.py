"""Waking a run: what has arrived for it is recorded in its log, and its next attempt begins.

The record is appended by compare-and-set, whether a worker holds the run or not: a holder continues
after it, as after a queued message. The first record of a source is the only one, whoever writes
it and however often it is tried.
"""

from contextlib import suppress
from dataclasses import dataclass, field

from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore, drop_links
from headrace.log import LogWriter, find_generation, last_entry, replay, writer_of
from headrace.model import events, json_text
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import BusUnavailable, Fenced, HeadraceError, LogLost, OutcomeUnknown
from headrace.model.events import Json
from headrace.model.messages import WokenRun
from headrace.model.sleep import asleep_for
from headrace.model.step import COMPLETED, MOST_IN_HEADER, ShownStep, StepId, StepRecord
from headrace.model.task import TaskKey
from headrace.model.wait import SourceEvent, arrived, shown_name, source_of
from headrace.tasks.end import context_of
from headrace.tasks.runs import release
from headrace.wait_for import ELECTION

_ROUNDS = 100
"""Maximum number of appends against a holder that keeps appending; one takes less than 1 ms."""

_CONCERN = tuple(f'"{key}"'.encode() for key in (events.HANDED_BACK, events.ATTEMPT))
"""Events without these are not parsed; most are pieces of text."""


class NotWaiting(HeadraceError):
    """The run has ended, or there is none: nothing can arrive for it."""

    code = "not_waiting"


@dataclass(slots=True)
class OpenRun:
    """A run that has not ended, up to its log's last entry."""

    bus: Bus
    key: TaskKey
    last: Entry
    records: dict[StepId, StepRecord] = field(default_factory=dict)
    """What the run and others have recorded."""
    asleep_for: frozenset[str] = frozenset()
    """The sources whose events it sleeps for."""

    @classmethod
    async def read(cls, bus: Bus, key: TaskKey, run: int) -> "OpenRun":
        """Read the run of the task.

        Raises:
            NotWaiting: It has ended, no worker has begun it, or there is none.
            BusUnavailable: The log does not answer.
        """
        last = await last_entry(bus, key)
        if last is None or last.stamp.run != run:
            raise _not_waiting(key)
        try:
            found = cls(bus, key, _open(key, last))
            await found._read(await find_generation(bus, key, run, last))
        except LogLost:
            raise _not_waiting(key) from None
        return found

    async def catch_up(self) -> None:
        """Read what has been appended since.

        Raises:
            NotWaiting, BusUnavailable: As `read`.
        """
        before, last = self.last, await last_entry(self.bus, self.key)
        if last is None or last.stamp.run != before.stamp.run:
            raise _not_waiting(self.key)
        self.last = _open(self.key, last)
        await self._read(before.sequence)

    @property
    def context(self) -> str:
        """The task's context."""
        return context_of(self.last)

    async def _read(self, after: int) -> None:
        async for batch in replay(self.bus, self.key, after, self.last.sequence):
            for entry in batch:
                self._note(entry)

    def _note(self, entry: Entry) -> None:
        if entry.stamp.step is not None and entry.stamp.attempt:
            record = StepRecord.decode(entry.stamp.step, entry.last_generation)
            if record is not None:
                self.records.setdefault(record.id, record)
        for line in entry.lines:
            if any(key in line for key in _CONCERN):
                self._note_attempt(json_text.decode(line))

    def _note_attempt(self, event: Json) -> None:
        if events.why_handed_back(event) is not None:
            self.asleep_for = asleep_for(event)
        elif events.ATTEMPT in events.status_metadata(event):
            self.asleep_for = frozenset()


async def wake_by(bus: Bus, tenant: str, owner: str, run: WokenRun, event: SourceEvent) -> None:
    """Wake `run`, of the tenant and owner, with the event of its source.

    Nothing happens if the run has ended, or has an event of the source.

    Raises:
        LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `wake`.
    """
    with suppress(NotWaiting):
        found = await OpenRun.read(bus, TaskKey(tenant, run.agent, run.task), run.run)
        await record_event(found, owner, run.source, event)


async def record_event(run: OpenRun, owner: str, source: str, event: SourceEvent) -> bool:
    """Record what `source` has sent for `run`, whose task is `owner`'s, and wake the run.

    A large event becomes a file of the task. Returns as `wake`.

    Raises:
        NotWaiting, LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `wake`.
    """
    key, encoded, link = run.key, event.encode(), ""
    files = FileStore(run.bus)
    if len(encoded) > MOST_IN_HEADER:
        belongs_to = FileOwner(owner, run.context)
        link = await files.put(key, belongs_to, encoded.encode(), "", "application/json")
    is_new = False
    try:
        record = StepRecord(arrived(source), None if link else encoded, link)
        is_new = await wake(run, record, shown_name(source))
    except OutcomeUnknown:
        is_new = True  # The log may name the file.
        raise
    finally:
        if link and not is_new:
            await drop_links(files, key, [link])
    return is_new


async def wake(run: OpenRun, record: StepRecord, shown_as: str) -> bool:
    """Record what has arrived for `run`, and have its next attempt begin if it sleeps for that.

    Clients are shown the end of a step with the name `shown_as`. Returns whether the record is new:
    it is not if its source has one.

    Raises:
        NotWaiting: The run has ended meanwhile.
        LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `LogWriter.append`.
    """
    source, writer = source_of(record), writer_of("wake")
    for _ in range(_ROUNDS):
        if record.id in run.records:
            return False
        sleeps = source in run.asleep_for
        try:
            await _append(run, record, shown_as, writer, wakes=sleeps)
        except Fenced:
            await run.catch_up()
            continue
        if sleeps:
            # If this fails, or the process is killed, task state's sweep does it.
            with suppress(BusUnavailable):
                await release(run.bus, run.key)
        return True
    raise BusUnavailable(f"the worker of task {run.key.task} keeps appending; try again")


async def _append(
    run: OpenRun, record: StepRecord, shown_as: str, writer: str, *, wakes: bool
) -> None:
    key, last = run.key, run.last
    now = last.stamp
    metadata = {
        **ShownStep(shown_as, COMPLETED).metadata(),
        events.ARRIVED: source_of(record),
        **({events.HANDED_BACK: events.WOKEN} if wakes else {}),
    }
    draft = events.status_update(key.task, run.context, now.state, None, metadata)
    generation = last.last_generation + 1
    stamp = Stamp(
        *(now.log, generation, writer, now.state, now.run, now.attempt), step=record.encode()
    )
    await LogWriter.after(run.bus, key, last).append([draft], stamp, ELECTION)


def _open(key: TaskKey, last: Entry) -> Entry:
    """Return the log's last entry, if a run is open after it.

    Raises:
        NotWaiting: None is, or no worker has begun it.
    """
    if last.ends_run or not last.stamp.attempt:
        raise _not_waiting(key)
    return last


def _not_waiting(key: TaskKey) -> NotWaiting:
    return NotWaiting(f"task {key.task} does not wait for this: its run has ended, or is unknown")
