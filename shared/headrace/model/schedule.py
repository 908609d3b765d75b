"""Schedules: messages that begin tasks at a time, at an interval, or by cron."""

import time
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from headrace.model.answers import AnswerRule
from headrace.model.messages import BusMessage
from headrace.model.subjects import NORMAL

KEPT_FIRINGS = 20
"""Number of last firings that are kept per schedule."""

QUEUED = 10
"""Maximum number of firings that wait for the task before, unless the schedule states another."""

MOST_QUEUED = 100
"""Maximum number of firings that may wait for the task before, or be about to begin their tasks:
each is named in the record that a firing changes.

Nor does one request back-fill more, since all of them may wait.
"""

Overlap = Literal["skip", "queue", "replace"]
"""See `Schedule.overlap`."""

_CRON_FIELDS = 5
"""Fields of a cron expression without seconds."""


@dataclass(frozen=True, slots=True)
class ScheduleKey:
    """Whose schedule it is, and its name among the owner's; all are subject tokens."""

    tenant: str
    owner: str
    name: str

    @property
    def tokens(self) -> tuple[str, str, str]:
        """The tokens of its subjects."""
        return self.tenant, self.owner, self.name

    @property
    def source(self) -> str:
        """Its name as a source of firings, unique in its tenant."""
        return f"schedule/{self.owner}/{self.name}"


class Schedule(BusMessage):
    """The definition of a schedule. Exactly one of `at`, `every` and `cron` is set."""

    agent: str
    parts: list[dict[str, Any]]
    """The message to the agent, as A2A Parts."""
    context: str | None = None
    """The conversation of the tasks. None: each has its own."""
    priority: str = NORMAL
    at: str | None = None
    """The time to fire at, once: RFC 3339."""
    every: str | None = None
    """The time between two firings, as a Go duration."""
    cron: str | None = None
    """A cron expression of five fields, or of six with seconds first."""
    time_zone: str | None = None
    """IANA name of cron's time zone. None: UTC."""
    overlap: Overlap = "skip"
    """What a firing does while the task of the one before has not ended: ``skip``: begin nothing;
    ``queue``: wait for it; ``replace``: cancel it."""
    max_queued: int = QUEUED
    """Maximum number of firings that wait; with ``queue`` only. Further ones begin nothing."""
    jitter: float = 0.0
    """Maximum of a random delay of each firing, in seconds."""
    end: str | None = None
    """The time from which it fires no more: RFC 3339."""
    max_firings: int | None = None
    """Number of tasks after which it ends. None: unlimited."""
    answers: AnswerRule | None = None
    """What is published of the tasks. None: nothing."""
    event_streams: int = 1
    """The number of event streams when it was stored, from which its tasks' ids are derived."""
    paused: bool = False
    ended: str = ""
    """Why it fires no more; empty: it has not ended."""
    created: float = Field(default_factory=time.time)
    """Seconds since 1970."""
    version: int = 0
    """Of the definition: when it was stated, in microseconds since 1970, or one more than the one
    before. It names the firings."""
    life: int = 0
    """The version with which it was created, or stored again after its end."""

    @property
    def expression(self) -> str:
        """When it fires, as JetStream's message schedules write it."""
        if self.at is not None:
            return f"@at {self.at}"
        if self.every is not None:
            return f"@every {self.every}"
        cron = self.cron or ""
        return f"0 {cron}" if len(cron.split()) == _CRON_FIELDS else cron

    @property
    def is_active(self) -> bool:
        """Whether it fires."""
        return not (self.paused or self.ended)

    def is_defined_as(self, other: "Schedule") -> bool:
        """Return whether a caller has stated the same for both."""
        return self.model_copy(update=_PROGRESS) == other.model_copy(update=_PROGRESS)


_PROGRESS: dict[str, Any] = {
    "paused": False,
    "ended": "",
    "created": 0.0,
    "version": 0,
    "life": 0,
    "event_streams": 1,
}
"""The fields of a schedule that its owner does not state."""


class ScheduleFiring(BusMessage):
    """What a firing of a schedule has done."""

    key: str
    """Identifies the firing among those of its schedule."""
    at: str
    """When it was due, or requested: RFC 3339."""
    outcome: Literal["beginning", "began", "skipped", "refused"]
    task: str | None = None
    """The task that it begins or began."""
    agent: str | None = None
    """The task's agent."""
    reason: str | None = None
    """Why it began none."""


class ScheduleFirings(BusMessage):
    """The last firings of a schedule, oldest first."""

    created: float = 0.0
    """When the schedule was created: another one of its name may have been deleted before."""
    began: int = 0
    """Number of tasks that were begun, with those that are being begun."""
    life: int = 0
    """The life of the schedule that `began_in_life` is about."""
    began_in_life: int = 0
    """The same number, of that life."""
    skipped: int = 0
    """Number of firings that began none by a rule of the schedule."""
    waiting: list[str] = Field(default_factory=list)
    """The keys of the firings that wait for the task before."""
    next: str | None = None
    """When it fires next, as of its last firing: RFC 3339."""
    last: list[ScheduleFiring] = Field(default_factory=list)
    """`KEPT_FIRINGS`, and of those before them the ones that are beginning, at most `MOST_QUEUED`,
    and the last one with a task."""

    @property
    def beginning(self) -> int:
        """Number of firings that are about to begin their tasks."""
        return sum(one.outcome == "beginning" for one in self.last)

    def find(self, key: str) -> ScheduleFiring | None:
        """Return the firing of that key. None: it is not among the last ones."""
        return next((one for one in self.last if one.key == key), None)

    def before(self, key: str) -> ScheduleFiring | None:
        """Return the last firing, other than that of `key`, that begins or began a task."""
        others = (one for one in reversed(self.last) if one.key != key and one.task is not None)
        return next(others, None)

    def of(self, created: float) -> "ScheduleFirings":
        """Return those of the schedule that was created then: none, if these are of another one."""
        return self if self.created == created else ScheduleFirings(created=created)

    def began_in(self, life: int) -> int:
        """Return how many tasks were begun in a life of the schedule."""
        return self.began_in_life if life == self.life else 0

    def having(
        self, firing: ScheduleFiring, following: str | None = None, life: int = 0
    ) -> "ScheduleFirings":
        """Return them with `firing` in place of the one of the same key, or as the last one.

        Of what came late nothing changes: a beginning is not skipped any more, and its outcome is
        only recorded while the beginning is. A process that was suspended may report it after more
        firings than are kept; what it skips then counts as skipped, though it had its outcome.

        Args:
            firing: The firing.
            following: When the schedule fires next: RFC 3339. None: as before.
            life: The schedule's, as of the firing.
        """
        known = self.find(firing.key)
        has_begun, is_end = _begins(known), firing.outcome in {"began", "refused"}
        if (is_end and known is None) or (_is_skipped(firing) and has_begun):
            return self.without_waiting(firing.key)
        kept = [one for one in self.last if one.key != firing.key]
        at = len(self.last) if known is None else self.last.index(known)
        kept.insert(at, firing)
        begun = _begins(firing) - has_begun
        latest = max(life, self.life)
        return ScheduleFirings(
            created=self.created,
            began=self.began + begun,
            life=latest,
            began_in_life=self.began_in(latest) + (begun if life == latest else 0),
            skipped=self.skipped + _is_skipped(firing) - _is_skipped(known),
            waiting=[key for key in self.waiting if key != firing.key],
            next=following or self.next,
            last=_last(kept),
        )

    def having_waiting(self, key: str, most: int) -> "ScheduleFirings":
        """Return them with the firing of that key waiting, unless `most` others wait already."""
        if key in self.waiting or len(self.waiting) >= most:
            return self
        return self.model_copy(update={"waiting": [*self.waiting, key]})

    def without_waiting(self, key: str) -> "ScheduleFirings":
        """Return them without the firing of that key among those that wait."""
        waiting = [one for one in self.waiting if one != key]
        return self.model_copy(update={"waiting": waiting})


def _begins(firing: ScheduleFiring | None) -> bool:
    return firing is not None and firing.outcome in {"beginning", "began"}


def _is_skipped(firing: ScheduleFiring | None) -> bool:
    return firing is not None and firing.outcome == "skipped"


def _last(firings: list[ScheduleFiring]) -> list[ScheduleFiring]:
    """Return the last firings, and further back those that are beginning and the last with a task.

    What is beginning, and counted, may take as long as its agent is away. The rule for overlap is
    decided by the last one with a task, after any number of firings that were skipped.
    """
    kept = {one.key for one in firings[-KEPT_FIRINGS:]}
    kept |= {one.key for one in [one for one in firings if one.task is not None][-1:]}
    return [one for one in firings if one.key in kept or one.outcome == "beginning"]
