"""Bringing messages of a range into one write."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import orjson

from headrace.log.stored import tombstone_of
from headrace.model.entry import Entry, parse_whole
from headrace.model.errors import UndecodableMessage
from headrace.model.events import Json
from headrace.model.fold import IllFormedEvent, read_artifact, read_change
from headrace.model.messages import DeadLetter
from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey
from headrace_task_state.projector.arrival import Arrival
from headrace_task_state.projector.dead_letters import letter
from headrace_task_state.projector.delta import Delta, gone
from headrace_task_state.store_redis.connection import Argument
from headrace_task_state.store_redis.progress import Progress

_log = logging.getLogger(__name__)

REMEMBERED_TASKS = 10_000
"""Tasks of which it is remembered what their lists end with; beyond, texts take more room."""


@dataclass(slots=True)
class Batch:
    """One write, and the letters that must be sent before it."""

    then: Progress
    """Where the range is once it is written."""
    tasks: list[Argument] = field(default_factory=list)
    """What to write, as ``store_redis/lua/apply.lua`` takes it."""
    letters: list[DeadLetter] = field(default_factory=list)
    has_tombstones: bool = False
    """Whether it takes tasks out of the view, of which more is left elsewhere."""
    touched: list[TaskKey] = field(default_factory=list)
    """Tasks that it changes."""


class Batches:
    """Builds one range's batches, one after the other.

    Every batch relies on those before it being written; after a failure begin with a new one.
    """

    def __init__(self, subjects: Subjects, patience: float) -> None:
        """Build from messages on `subjects`; an input is due again after `patience` seconds."""
        self._subjects = subjects
        self._patience = round(patience * 1000)
        self._deltas: dict[str, Delta] = {}

    def build(self, arrivals: Sequence[Arrival], before: Progress) -> Batch:
        """Return what `arrivals`, the next messages of a range at `before`, change."""
        if len(self._deltas) > REMEMBERED_TASKS:
            self._deltas.clear()
        if not arrivals:
            return Batch(before)
        touched: list[Delta] = []
        last = arrivals[-1]
        batch = Batch(replace(before, position=last.sequence, last=last.sequence, time=last.time))
        for arrival in arrivals:
            try:
                # Headers are read where there is no body only: tombstones have none.
                if arrival.msg.data or tombstone_of(arrival.msg.headers) is None:
                    self._take(arrival, touched, batch.letters)
                else:
                    self._let_go(arrival, touched, batch.tasks)
                    batch.has_tombstones = True
            except UndecodableMessage as error:
                batch.letters.append(letter(arrival, error.reason))
        for delta in touched:
            batch.tasks += delta.flush(self._patience)
            batch.touched.append(delta.key)
        return batch

    def _take(self, arrival: Arrival, touched: list[Delta], letters: list[DeadLetter]) -> None:
        msg = arrival.msg
        delta = self._deltas.get(msg.subject) or self._delta(msg.subject)
        frame = delta.frame
        known = frame.text_of if frame is not None else None
        stamp = arrival.stamp()
        entry, events = parse_whole(msg.subject, stamp, msg.data, arrival.sequence, known)
        if not delta.follows(entry):
            letters.append(letter(arrival, "it is of another log than those before it"))
            return
        if not delta.touched:
            touched.append(delta)
        delta.begin_entry(entry, arrival.time)
        if wrong := _take_events(delta, entry, events):
            letters.append(letter(arrival, "; ".join(wrong)))

    def _let_go(self, arrival: Arrival, touched: list[Delta], tasks: list[Argument]) -> None:
        """Take a tombstone: what came of the task before it need not be written any more."""
        subject = arrival.msg.subject
        key = self._subjects.key_of_event(subject)
        if (delta := self._deltas.pop(subject, None)) is not None and delta in touched:
            touched.remove(delta)
        tasks += gone(key, arrival.time)

    def _delta(self, subject: str) -> Delta:
        delta = self._deltas[subject] = Delta(self._subjects.key_of_event(subject))
        return delta


def _take_events(delta: Delta, entry: Entry, events: list[Json | str]) -> list[str]:
    """Fold an entry's events in; what is wrong with some of them is returned."""
    wrong: list[str] = []
    for generation, event in enumerate(events, entry.generation):
        try:
            if not isinstance(event, str):
                _take_event(delta, generation, event)
            elif delta.frame is not None:
                delta.take_text(generation, event)
            else:
                # Something else has come between: it goes on with nothing.
                line = entry.lines[generation - entry.generation]
                _take_event(delta, generation, orjson.loads(line))
        except IllFormedEvent as error:
            wrong.append(str(error))
        except Exception as error:  # noqa: BLE001
            # Whatever it is, it must not hold up the logs behind it.
            _log.exception("%s, generation %d", delta.key.task, generation)
            wrong.append(f"event {generation}: {type(error).__name__}: {error}")
    delta.learn(entry)
    return wrong


def _take_event(delta: Delta, generation: int, event: Json) -> None:
    if "artifactUpdate" in event:
        delta.take_artifact(read_artifact(event["artifactUpdate"], generation))
    else:
        delta.take(read_change(event, generation))
