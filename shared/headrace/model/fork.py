"""Forks: tasks that begin with another task's past.

A fork's log repeats the source's events up to a generation, with the same generations, and goes on
from there. Where a fork may begin is a pure function of the source's log: `ForkPoints`.
"""

from dataclasses import dataclass
from typing import Any, Self

from headrace.model.change import IllFormedEvent, event_metadata, read_change
from headrace.model.delegation import ASKS_FOR, CHILD
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.queued_message import UnansweredMessages
from headrace.model.task import INPUT_REQUIRED, SUBMITTED, is_task_id

FORK_OF = "headrace.forkOf"
"""Metadata key of generation 1: a `ForkOf`. Clients can't set metadata with our prefix."""

FORK_WRITER = "fork"
"""Kind of the writer of copied entries: the part of its id before the first hyphen."""

MOST_FORKS = 20
"""Maximum length of a chain of forks that `ForkOf.before` describes."""


@dataclass(frozen=True, slots=True)
class ForkOf:
    """Where a task's past comes from."""

    task: str
    context: str
    generation: int
    """Generation of the last copied event."""
    at: str
    """When the source stored that event, RFC 3339."""
    requested: int
    """The generation that the client named. It is greater if that was in the middle of a run."""
    state: str
    """The source's state after that event. A fork of a task that was over waits for its user."""
    goes_on: bool = False
    """Whether one more event completes the log: a message, or the end of the source's attempt."""
    before: "ForkOf | None" = None
    """The same of the source, if it was a fork itself."""

    @property
    def complete(self) -> int:
        """Generation at which the log is complete, so that others may continue it."""
        return self.generation + self.goes_on

    def chain(self) -> "list[ForkOf]":
        """Return this fork and those before it, the newest first."""
        return [self, *(self.before.chain() if self.before else [])]

    def to_json(self, most: int = MOST_FORKS) -> Json:
        """Return the metadata value, with at most `most` forks of a chain."""
        shown: Json = {
            "task": self.task,
            "contextId": self.context,
            "generation": self.generation,
            "at": self.at,
            "requested": self.requested,
            "state": self.state,
            "goesOn": self.goes_on,
        }
        if self.before is not None and most > 1:
            shown["before"] = self.before.to_json(most - 1)
        return shown

    @classmethod
    def of(cls, metadata: Any) -> Self | None:  # noqa: ANN401  # any JSON
        """Return the source in a task's metadata. None: it is not a fork."""
        kept = metadata.get(FORK_OF) if isinstance(metadata, dict) else None
        return None if kept is None else cls._read(kept, MOST_FORKS)

    @classmethod
    def _read(cls, kept: Any, most: int) -> Self | None:  # noqa: ANN401  # any JSON
        match kept:
            case {
                "task": str(task),
                "contextId": str(context),
                "generation": int(generation),
                "at": str(at),
                "requested": int(requested),
                "state": str(state),
            } if most and is_task_id(task):
                goes_on = kept.get("goesOn") is True
                before = cls._read(kept.get("before"), most - 1)
                return cls(task, context, generation, at, requested, state, goes_on, before)
        return None


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """A generation after which a fork can continue."""

    generation: int
    run: int
    """The run that this event belongs to, by its input's generation."""
    attempt: int
    """The attempt that wrote it; 0: it is an input, or no worker wrote it."""
    at: str
    """When it was stored, RFC 3339."""
    state: str
    """The task's state after it."""
    run_ended: bool
    """Whether the run is over, so that the fork waits for its user."""
    waiting: tuple[int, ...] = ()
    """Generations of the messages that are queued for the run."""

    @property
    def is_input(self) -> bool:
        """Whether no attempt at the run has done anything that the fork keeps."""
        return not self.run_ended and self.generation == self.run


class ForkPoints:
    """Finds the last point of a log, up to a generation, after which a fork can continue.

    Such points are inputs, checkpoints, recorded steps and ends of runs. A run that has asked child
    tasks goes on only from its input: the children are the source's, and a fork must not touch
    them. For the same reason a fork can't answer a question of the source's child, nor begin at
    such an answer.
    """

    def __init__(self, generation: int) -> None:
        """Look up to `generation`."""
        self._most = generation
        self.point: ForkPoint | None = None
        """The last point so far. None: there is none, which the first event of a log excludes."""
        self._run, self._is_entangled, self._child_asks = 0, False, False
        self._waiting = UnansweredMessages()

    def add(self, entry: Entry) -> None:
        """Add the next entry of the log."""
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation > self._most:
                return
            self._add_event(event, generation, entry)
        if entry.ends_run:
            if not self._child_asks:
                self.point = self._point(entry, entry.last_generation, run_ended=True)
        elif _is_kept(entry) and not self._is_entangled:
            self.point = self._point(entry, entry.last_generation)

    def _add_event(self, event: Json, generation: int, entry: Entry) -> None:
        if "artifactUpdate" in event:
            return
        metadata = event_metadata(event)
        self._waiting.note(metadata, generation)
        if CHILD in metadata:
            self._is_entangled = True
        if _is_input(event, generation):
            self._waiting.begin_run(metadata)
            self._run, self._is_entangled = generation, self._child_asks
            if not self._child_asks:
                self.point = self._point(entry, generation)
        self._child_asks = ASKS_FOR in metadata

    def _point(self, entry: Entry, generation: int, *, run_ended: bool = False) -> ForkPoint:
        attempt = 0 if generation == self._run else entry.stamp.attempt
        # Of the runs that end, only a question leaves messages waiting.
        leaves = not run_ended or entry.stamp.state == INPUT_REQUIRED
        waiting = self._waiting.generations if leaves else ()
        is_last = generation == entry.last_generation
        state = entry.stamp.state if is_last else SUBMITTED
        return ForkPoint(generation, self._run, attempt, entry.time, state, run_ended, waiting)


def _is_kept(entry: Entry) -> bool:
    """Return whether another attempt at the run finds in `entry` what was done before it."""
    stamp = entry.stamp
    return stamp.attempt > 0 and (stamp.checkpoint is not None or stamp.step is not None)


def _is_input(event: Json, generation: int) -> bool:
    try:
        return read_change(event, generation).is_input
    except IllFormedEvent:
        return False
