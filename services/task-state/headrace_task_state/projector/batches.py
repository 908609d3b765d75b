"""Combine messages of a range into one write."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headrace.log_context import about_task
from headrace.model import json_text
from headrace.model.change import IllFormedEvent, read_artifact, read_change
from headrace.model.entry import OWNER, parse_lines
from headrace.model.errors import NewerVersion, UndecodableMessage
from headrace.model.events import Json
from headrace.model.messages import DeadLetter
from headrace.model.subjects import Subjects
from headrace.model.task import TaskKey
from headrace_task_state.projector.consumer import Arrival
from headrace_task_state.projector.dead_letters import letter
from headrace_task_state.projector.delta import Delta
from headrace_task_state.store import Progress, TaskChange, TaskRemoval

_log = logging.getLogger(__name__)

REMEMBERED_TASKS = 10_000
"""Tasks whose list ends are remembered; of any beyond these, texts take more space."""


@dataclass(slots=True)
class StoreBatch:
    """One write, and the letters that must be sent before it."""

    then: Progress = field(default_factory=Progress)
    """The range's progress once it is written."""
    changes: list[TaskChange | TaskRemoval] = field(default_factory=list)
    """The changes to write."""
    letters: list[DeadLetter] = field(default_factory=list)
    has_tombstones: bool = False
    """Whether it removes tasks from the view of which more is left elsewhere."""
    touched: list[TaskKey] = field(default_factory=list)
    """Tasks that it changes."""
    continued: dict[TaskKey, int] = field(default_factory=dict)
    """Tasks that have more in their logs, mostly behind their end, up to these sequences. In
    `changes`, too, where it is ignored or changes nothing."""


class Batches:
    """Builds one range's batches, one after the other.

    Each batch relies on the previous ones being written; after a failure, start with a new object.
    """

    def __init__(self, subjects: Subjects, timeout: float, silence: float) -> None:
        """Build from messages on `subjects`.

        An input is due again after `timeout` seconds, a running task after `silence` seconds.
        """
        self._subjects = subjects
        self._timeout, self._silence = round(timeout * 1000), round(silence * 1000)
        self._deltas: dict[str, Delta] = {}
        self._batch, self._touched = StoreBatch(), list[Delta]()
        self._last: Arrival | None = None
        """The last message taken since the last batch."""

    def build(self, arrivals: Sequence[Arrival], before: Progress) -> StoreBatch:
        """Return the changes of `arrivals`, the next messages of a range at `before`."""
        self.take(arrivals)
        return self.finish(before)

    def take(self, arrivals: Sequence[Arrival]) -> None:
        """Fold in the next messages; `finish` returns their changes.

        Those of one log follow each other, which takes less than turning from one to the next.
        """
        logs = defaultdict[str, list[Arrival]](list)
        for arrival in arrivals:
            self._last = arrival
            logs[arrival.msg.subject].append(arrival)
        for subject, some in logs.items():
            self._take_of_log(subject, some)

    def _take_of_log(self, subject: str, arrivals: Sequence[Arrival]) -> None:
        at = 0
        while at < len(arrivals):
            if (delta := self._deltas.get(subject)) is not None and delta.headers is not None:
                at += self._take_texts(delta, arrivals, at)
                if at == len(arrivals):
                    return
            arrival = arrivals[at]
            try:
                if not arrival.msg.data and arrival.is_tombstone:
                    self._batch.changes += self._remove(arrival, self._touched)
                    self._batch.has_tombstones = True
                else:
                    self._apply(arrival, self._touched, self._batch)
            except UndecodableMessage as error:
                self._reject(arrival, error)
            at += 1

    def _take_texts(self, delta: Delta, arrivals: Sequence[Arrival], start: int) -> int:
        is_new = not delta.touched
        number = delta.take_texts(arrivals, start)
        if number and is_new:
            self._touched.append(delta)
        return number

    def _reject(self, arrival: Arrival, error: UndecodableMessage) -> None:
        self._batch.letters.append(letter(arrival, error.reason))
        if isinstance(error, NewerVersion):
            # Nobody who reads the last entry gets past it, if it stands behind an end.
            key = self._subjects.key_of_event(arrival.msg.subject)
            self._batch.continued[key] = arrival.sequence

    def finish(self, before: Progress) -> StoreBatch:
        """Return the changes of all messages taken since the last call, of a range at `before`."""
        batch, touched, last = self._batch, self._touched, self._last
        self._batch, self._touched, self._last = StoreBatch(), [], None
        batch.then = before
        if last is not None:
            batch.then = replace(before, position=last.sequence, last=last.sequence, time=last.time)
        for delta in touched:
            change = delta.flush(self._timeout, self._silence)
            batch.changes.append(change)
            batch.touched.append(delta.key)
            if change.ended is not None:
                # Nothing follows, so nothing has to be remembered.
                self._deltas.pop(delta.subject, None)
        batch.changes += (continuation(*one) for one in batch.continued.items())
        if len(self._deltas) > REMEMBERED_TASKS:
            self._deltas.clear()
        return batch

    def forget(self, keys: Iterable[TaskKey]) -> None:
        """Forget these tasks, whose last changes the store has ignored."""
        for key in keys:
            self._deltas.pop(self._subjects.event(key), None)

    def _apply(self, arrival: Arrival, touched: list[Delta], batch: StoreBatch) -> None:
        subject, data, letters = arrival.msg.subject, arrival.msg.data, batch.letters
        delta = self._deltas.get(subject)
        if delta is None:
            key = self._subjects.key_of_event(subject)
            delta = self._deltas[subject] = Delta(key, subject)
        stamp, frame = arrival.stamp(), delta.frame
        text_of = frame.text_of if frame is not None else None
        lines, events = parse_lines(subject, stamp, data, text_of)
        if delta.is_over:
            batch.continued[delta.key] = arrival.sequence
            return
        if stamp.generation != 1 and not delta.follows(stamp):
            letters.append(letter(arrival, "it belongs to another log than the previous entries"))
            batch.continued[delta.key] = arrival.sequence
            return
        if not delta.touched:
            touched.append(delta)
        last = stamp.generation + len(lines) - 1
        delta.begin_entry(stamp, last, arrival.sequence, arrival.time)
        if wrong := _apply_events(delta, stamp.generation, lines, events):
            letters.append(letter(arrival, "; ".join(wrong)))
        if isinstance(events[-1], str) or "artifactUpdate" in events[-1]:
            delta.learn(lines[-1], last, len(lines))
        if isinstance(events[-1], str):
            delta.learn_headers(arrival.msg, stamp)

    def _remove(self, arrival: Arrival, touched: list[Delta]) -> Iterator[TaskChange | TaskRemoval]:
        """Take a tombstone; the task's earlier changes in this batch matter only for its usage."""
        subject = arrival.msg.subject
        key = self._subjects.key_of_event(subject)
        if (delta := self._deltas.pop(subject, None)) is not None and delta in touched:
            touched.remove(delta)
            if delta.has_usage:
                yield delta.flush(self._timeout, self._silence)
        owner = (arrival.msg.headers or {}).get(OWNER, "")
        yield TaskRemoval(key, arrival.time // 1_000_000, owner)


def continuation(key: TaskKey, sequence: int) -> TaskChange:
    """Return the change by what is at that stream sequence, behind the end of the task's log.

    The store takes note of it; if the task has not ended, it changes nothing.
    """
    return TaskChange(key, "", fields={"sequence": str(sequence)})


def _apply_events(
    delta: Delta, first: int, lines: list[bytes], events: list[Json | str]
) -> list[str]:
    """Fold in an entry's events, from generation `first`; return the errors of invalid ones."""
    wrong: list[str] = []
    for generation, event in enumerate(events, first):
        try:
            if isinstance(event, str):
                if delta.frame is not None:
                    delta.add_text(generation, event)
                    continue
                # Another item came in between: the event continues nothing.
                event = json_text.decode(lines[generation - first])  # noqa: PLW2901
            if "artifactUpdate" in event:
                delta.add_artifact(read_artifact(event["artifactUpdate"], generation))
            else:
                delta.apply(read_change(event, generation))
        except IllFormedEvent as error:
            wrong.append(str(error))
        except Exception as error:  # noqa: BLE001
            # Whatever fails here must not stop the logs that follow.
            _log.exception(
                "%s, generation %d", delta.key.task, generation, extra=about_task(delta.key)
            )
            wrong.append(f"event {generation}: {type(error).__name__}: {error}")
    return wrong
