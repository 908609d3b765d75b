"""Recovery: what an attempt reads from the run's log: the input, and what earlier attempts left."""

from dataclasses import dataclass, field
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import find_generation, replay
from headrace.model import events, parts
from headrace.model.delegation import CHILD, DELEGATION, Lineage
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import AGUI, Json
from headrace.model.queued_message import QueuedMessage
from headrace.model.sleep import asleep_for, asleep_until, sleep_of
from headrace.model.step import StepRecord
from headrace.model.task import CANCELED, TaskKey
from headrace.model.wait import source_of, timed_out_by
from headrace.sdk.checkpoint import Checkpoint, decode
from headrace.sdk.shared_state import SharedState
from headrace.sdk.token_usage import usage_of
from headrace.tasks.unanswered import read_queued
from headrace_worker.delegation.child_events import KnownChildren
from headrace_worker.usage import UsageTotals

_STATE = frozenset({parts.STATE_SNAPSHOT, parts.STATE_DELTA})


@dataclass(slots=True)
class RecoveredRun:
    """A run's log up to the attempt that reads it."""

    message: Json
    """A2A Message of the input."""
    metadata: Json
    """Metadata of the input event."""
    time: str
    """Time at which the input was stored, RFC 3339."""
    kept: int
    """Generation of the last checkpoint, or of the input; later output is discarded."""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    """The last checkpoint, if any."""
    began: str | None = None
    """Time at which the first attempt started, RFC 3339, or None."""
    queued: list[QueuedMessage] = field(default_factory=list)
    """Messages that were accepted during the run, including those that an attempt has taken."""
    taken: dict[int, int] = field(default_factory=dict)
    """Generation at which an attempt took a message, by the message's generation."""
    is_canceling: bool = False
    """Whether an attempt has recorded that the run will end as canceled."""
    handed_back: int = 0
    """Attempts handed back by a stopping worker or for a sleep; they do not count as failed."""
    slept: int = 0
    """Those that were handed back for a sleep."""
    sleeps: dict[str, datetime] = field(default_factory=dict)
    """When each sleep of the run ends, by its id."""
    steps: list[StepRecord] = field(default_factory=list)
    """The run's recorded steps, oldest first."""
    asleep_until: datetime | None = None
    """When the sleep ends for which the last attempt ended. None: it ended for none."""
    asleep_for: frozenset[str] = frozenset()
    """The sources that end it before."""
    arrivals: dict[str, StepRecord] = field(default_factory=dict)
    """What has arrived for the run, by its source."""
    timed_out: list[str] = field(default_factory=list)
    """The run's waits for which nothing has come in time."""
    replaced: list[tuple[str, str]] = field(default_factory=list)
    """Attempts that ended silently and were replaced: each one's worker, and the time of its
    replacement, RFC 3339. The last attempt is not included, because it is only about to be
    replaced."""
    holder: str = ""
    """Worker of the last attempt; empty if that attempt recorded its end."""
    traceparent: str | None = None
    """W3C trace context of the last attempt's span, or None."""
    survived: int = 0
    """Number of `replaced` attempts whose workers are alive: they were frozen or cut off, and their
    agents did not fail."""
    unfinished_artifacts: list[str] = field(default_factory=list)
    """Artifacts that earlier attempts emitted after `kept`, oldest first."""
    signals: list[Json] = field(default_factory=list)
    """Parts that changed the shared state, up to `kept`."""
    known_children: KnownChildren = field(default_factory=KnownChildren)
    """Child tasks of the run's attempts."""
    unsaved: list[Json] = field(default_factory=list)
    """Parts that changed the shared state after `kept`; the next checkpoint saves them."""
    used: UsageTotals | None = None
    """Usage reported by all attempts of the run, including those whose output is discarded."""

    @property
    def is_woken(self) -> bool:
        """Whether what the run sleeps for has arrived."""
        return not self.asleep_for.isdisjoint(self.arrivals)

    def note_wait(self, record: StepRecord) -> bool:
        """Note what `record` says of a wait; return whether it says anything."""
        if (source := source_of(record)) is not None:
            self.arrivals.setdefault(source, record)
        elif (wait := timed_out_by(record)) is not None:
            self.timed_out.append(wait)
        else:
            return False
        return True

    @property
    def asked_steps(self) -> list[StepRecord]:
        """The recorded steps that had been asked for where the attempt continues."""
        left = set(self.checkpoint.steps)
        return [one for one in self.steps if one.generation <= self.kept and one.id not in left]

    @property
    def not_counted(self) -> int:
        """Number of attempts that do not count as failed."""
        return self.handed_back + self.survived

    @property
    def lineage(self) -> Lineage | None:
        """The origin of the input; None: no agent sent it, as for most runs."""
        return Lineage.of(self.metadata) if DELEGATION in self.metadata else None

    def shared_state(self) -> SharedState | None:
        """Return the initial state of the attempt: the client's, plus the updates saved since.

        Returns:
            None if it is empty, as most runs have it.
        """
        sent = self.metadata.get(AGUI)
        initial = sent.get("state") if isinstance(sent, dict) else None
        if initial in (None, {}) and not self.signals:
            return None
        state = SharedState(initial)
        for part in self.signals:
            state.replay(part)
        return state

    def knows(self, name: str) -> bool:
        """Return whether a message with that input id was queued: it is the same message."""
        return bool(name) and any(queued.name == name for queued in self.queued)

    @property
    def waiting(self) -> list[QueuedMessage]:
        """The unanswered messages, in the order of the log.

        Messages that an attempt took after its last checkpoint are unanswered again.
        """
        return [q for q in self.queued if self.taken.get(q.generation, self.kept + 1) > self.kept]


async def recover(bus: Bus, key: TaskKey, run: int, last: Entry) -> RecoveredRun:
    """Read the run's log up to `last`, its log's last entry.

    The first attempt has its input in `last` and reads nothing.

    Raises:
        LogLost: the input is no longer in the log.
        BusUnavailable: the stream does not answer.
    """
    if last.last_generation == run:
        recovered = _begin(last, run)
    else:
        recovered = await _read_all(bus, key, run, last)
    left = recovered.metadata.get(events.WAITING) or []
    recovered.queued[:0] = [await read_queued(bus, key, generation, last) for generation in left]
    return recovered


async def _read_all(bus: Bus, key: TaskKey, run: int, last: Entry) -> RecoveredRun:
    after = await find_generation(bus, key, run, last)
    recovered: RecoveredRun | None = None
    async for batch in replay(bus, key, after, last.sequence):
        for entry in batch:
            if recovered is None:
                recovered = _begin(entry, run)
            _go_through(recovered, entry)
    if recovered is None:
        raise LogLost(f"the input {run} of {key.task} is gone")
    return recovered


def _begin(entry: Entry, run: int) -> RecoveredRun:
    event = entry.events[run - entry.generation]
    if "task" in event:
        task = event["task"]
        history = task.get("history") or [{}]
        return RecoveredRun(history[-1], task.get("metadata", {}), entry.time, run)
    update = event.get("statusUpdate", {})
    message = update.get("status", {}).get("message", {})
    return RecoveredRun(message, update.get("metadata", {}), entry.time, run)


def _note_attempt(recovered: RecoveredRun, event: Json, time: str) -> None:
    """Record which worker started an attempt, and whether the previous attempt recorded its end."""
    metadata = events.status_metadata(event)
    if (worker := metadata.get(events.WORKER)) is None or events.ATTEMPT not in metadata:
        if events.why_handed_back(event) is not None:
            recovered.holder = ""
            recovered.asleep_until, recovered.asleep_for = asleep_until(event), asleep_for(event)
        return
    recovered.asleep_until = None
    recovered.traceparent = metadata.get(events.ATTEMPT_TRACEPARENT)
    if recovered.holder:
        recovered.replaced.append((recovered.holder, time))
    recovered.holder = str(worker)


def _go_through(recovered: RecoveredRun, entry: Entry) -> None:
    if entry.stamp.attempt and recovered.began is None:
        recovered.began = entry.time
    for generation, event in enumerate(entry.parsed(), entry.generation):
        _note_inputs(recovered, event, generation)
        if entry.stamp.attempt:
            _note_attempt(recovered, event, entry.time)
        artifact = event.get("artifactUpdate", {}).get("artifact", {}).get("artifactId")
        if artifact is not None and artifact not in recovered.unfinished_artifacts:
            recovered.unfinished_artifacts.append(artifact)
        _note_signals(recovered, event)
        recovered.known_children.note(event)
        recovered.is_canceling |= entry.stamp.attempt > 0 and _is_canceled(event)
        if (slept := sleep_of(event)) is not None:
            recovered.sleeps.update([slept])
        why = events.why_handed_back(event)
        recovered.handed_back += why in {events.LEAVING, events.ASLEEP}
        recovered.slept += why == events.ASLEEP
    if entry.stamp.step is not None and entry.stamp.attempt:
        step = StepRecord.decode(entry.stamp.step, entry.last_generation)
        if step is not None and not recovered.note_wait(step):
            recovered.steps.append(step)
    if entry.stamp.checkpoint is not None:
        recovered.kept, recovered.checkpoint = entry.last_generation, decode(entry.stamp.checkpoint)
        recovered.unfinished_artifacts.clear()
        recovered.signals += recovered.unsaved
        recovered.unsaved.clear()


def _note_inputs(recovered: RecoveredRun, event: Json, generation: int) -> None:
    if (queued := QueuedMessage.read(event, generation)) is not None and not recovered.knows(
        queued.name
    ):
        recovered.queued.append(queued)
    if (taken := events.status_metadata(event).get(events.TAKEN)) is not None:
        recovered.taken[taken] = generation


def _note_signals(recovered: RecoveredRun, event: Json) -> None:
    metadata = events.status_metadata(event)
    if CHILD in metadata:
        return
    if events.ATTEMPT in metadata:
        recovered.unsaved.clear()
    content = events.status_parts(event)
    recovered.unsaved += [part for part in content if parts.event_type(part) in _STATE]
    for part in content:
        if parts.event_type(part) == parts.USAGE:
            recovered.used = recovered.used or UsageTotals()
            recovered.used.add(usage_of(part.get("data")))


def _is_canceled(event: Json) -> bool:
    metadata = events.status_metadata(event)
    return metadata.get(events.ENDING) == CANCELED and CHILD not in metadata
