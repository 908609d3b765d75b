"""JetStream's message schedules: stored messages that it copies to a subject when they are due.

The last message on a schedule's subject is the schedule. Storing another one replaces it; one
without a time fires never. JetStream removes a schedule for one time when it fires.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.jetstream.api import store_after
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.jetstream.headers import ROLLUP, SCHEDULE, SCHEDULE_TARGET, SCHEDULE_TIME_ZONE
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


async def store_schedule(  # noqa: PLR0913, PLR0917 - what is stored, and where
    bus: Bus,
    stream: str,
    subject: str,
    data: bytes,
    after: int,
    rule: FiringRule | None,
    *,
    headers: Mapping[str, str] | None = None,
) -> int:
    """Replace what is stored on `subject` at sequence `after`, and return the new sequence.

    Firings have a copy of `data` and of `headers`. Without a `rule` the message is kept and never
    fires.

    Raises:
        ExpressionRefused, TimeZoneRefused: JetStream refuses the rule.
        ScheduleChanged: the subject is at another sequence.
        Refused, BusUnavailable: as `store_after`.
    """
    rules = {ROLLUP: "sub", **(rule.headers() if rule is not None else {})}
    try:
        return await store_after(bus, stream, subject, data, after, {**(headers or {}), **rules})
    except Refused as refused:
        match refused.number:
            case ErrorCode.SCHEDULE_INVALID:
                raise ExpressionRefused("JetStream refuses the expression") from refused
            case ErrorCode.TIME_ZONE_INVALID:
                raise TimeZoneRefused("JetStream does not know the time zone") from refused
        if refused.has_other_sequence:
            raise ScheduleChanged(f"{subject} was changed concurrently") from refused
        raise
