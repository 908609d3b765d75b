"""JetStream's message schedules: stored messages that it copies to a subject when they are due.

The last message on a schedule's subject is the schedule. Storing another one replaces it. JetStream
removes a schedule for one time when it fires.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.jetstream.api import MessageToStore, store_after, store_together_after
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.jetstream.headers import (
    PURGE,
    ROLLUP,
    SCHEDULE,
    SCHEDULE_NEXT,
    SCHEDULE_TARGET,
    SCHEDULE_TIME_ZONE,
    SCHEDULER,
)
from headrace.model.errors import HeadraceError


class ExpressionRefused(HeadraceError):
    """JetStream refuses the expression of a schedule."""

    code = "invalid_schedule"


class TimeZoneRefused(HeadraceError):
    """JetStream does not know the time zone of a schedule."""

    code = "invalid_schedule"


class ScheduleChanged(HeadraceError):
    """The schedule was changed concurrently. Read it again."""

    code = "moved"


@dataclass(frozen=True, slots=True)
class FiringRule:
    """When a message schedule fires, and where."""

    expression: str
    """``@at`` and a time, ``@every`` and a Go duration, or a cron expression of six fields."""
    target: str
    """A subject of the same stream."""
    time_zone: str | None = None
    """IANA name; for cron only. None: UTC."""

    def headers(self) -> dict[str, str]:
        """Return the headers that make a message a schedule."""
        zone = {} if self.time_zone is None else {SCHEDULE_TIME_ZONE: self.time_zone}
        return {SCHEDULE: self.expression, SCHEDULE_TARGET: self.target, **zone}


@dataclass(frozen=True, slots=True)
class DefinitionSubjects:
    """Where a definition and its timer are stored, in the same stream."""

    definition: str
    timer: str


async def store_schedule(  # noqa: PLR0913, PLR0917 - what is stored, and where
    bus: Bus,
    stream: str,
    subject: str,
    data: bytes,
    after: int,
    rule: FiringRule,
    *,
    headers: Mapping[str, str] | None = None,
) -> int:
    """Replace what is stored on `subject` at sequence `after`, and return the new sequence.

    Firings have a copy of `data` and of `headers`.

    Raises:
        ExpressionRefused, TimeZoneRefused: JetStream refuses the rule.
        ScheduleChanged: the subject is at another sequence.
        Refused, BusUnavailable: as `store_after`.
    """
    rules = {ROLLUP: "sub", **rule.headers()}
    with _translated(subject):
        return await store_after(bus, stream, subject, data, after, {**(headers or {}), **rules})


async def store_definition(  # noqa: PLR0917 - what is stored, and where
    bus: Bus,
    stream: str,
    at: DefinitionSubjects,
    data: bytes,
    after: int,
    rule: FiringRule | None,
    *behind: MessageToStore,
) -> int:
    """Replace a definition at sequence `after` and its timer, both or none of them.

    JetStream removes the timer of one time when it fires; the definition stays. Firings have a copy
    of `data`. Without a `rule` there is no timer. The messages `behind` a timer are stored with it.

    Returns:
        The definition's new sequence.

    Raises:
        ExpressionRefused, TimeZoneRefused, ScheduleChanged, Refused, BusUnavailable: as
            `store_schedule`.
    """
    replacing = {ROLLUP: "sub"}
    with _translated(at.definition):
        if rule is None:
            untimed = {**replacing, SCHEDULER: at.timer, SCHEDULE_NEXT: PURGE}
            return await store_after(bus, stream, at.definition, data, after, untimed)
        definition = MessageToStore(at.definition, data, replacing)
        timer = MessageToStore(at.timer, data, {**replacing, **rule.headers()})
        return await store_together_after(bus, stream, [definition, timer, *behind], after)


@contextmanager
def _translated(subject: str) -> Iterator[None]:
    """Convert refusals of a message schedule on `subject`."""
    try:
        yield
    except Refused as refused:
        match refused.number:
            case ErrorCode.SCHEDULE_INVALID:
                raise ExpressionRefused("JetStream refuses the expression") from refused
            case ErrorCode.TIME_ZONE_INVALID:
                raise TimeZoneRefused("JetStream does not know the time zone") from refused
        if refused.has_other_sequence:
            raise ScheduleChanged(f"{subject} was changed concurrently") from refused
        raise
