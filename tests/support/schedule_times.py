"""When schedules of tests are due, worked out second by second, as no scheduler does."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headrace.model.events import timestamp

SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class ByCron:
    """Each `step` seconds, of some hours or days in a zone."""

    step: int
    hour: int | None
    day: tuple[int, int] | None
    """The month and its day."""
    zone: str | None

    @property
    def terms(self) -> dict[str, object]:
        """The fields of the schedule."""
        hour = "*" if self.hour is None else self.hour
        month, day = ("*", "*") if self.day is None else self.day
        return {"cron": f"*/{self.step} * {hour} {day} {month} *", "time_zone": self.zone}

    def within(self, after: datetime, before: datetime) -> Iterator[datetime]:
        """Yield the times between two others."""
        due = after.astimezone(UTC).replace(microsecond=0) + SECOND
        while due < before:
            if self.has(due):
                yield due
            due += SECOND

    def has(self, due: datetime) -> bool:
        """Return whether it is due at a time of whole seconds."""
        local = due.astimezone(ZoneInfo(self.zone or "UTC"))
        has_hour = self.hour in {None, local.hour}
        has_day = self.day in {None, (local.month, local.day)}
        return not local.second % self.step and has_hour and has_day


@dataclass(frozen=True, slots=True)
class ByInterval:
    """Each so many seconds from its storing on."""

    seconds: int

    @property
    def terms(self) -> dict[str, object]:
        """The fields of the schedule."""
        return {"every": f"{self.seconds}s"}

    def within(self, stored: datetime, before: datetime) -> Iterator[datetime]:
        """Yield the times from when it was stored to another one."""
        due = (stored + SECOND / 2).replace(microsecond=0)
        while (due := due + self.seconds * SECOND) < before:
            yield due

    @staticmethod
    def has(due: datetime) -> bool:
        """Return whether it may be due at a time, if it started anew after an outage."""
        return not due.microsecond


@dataclass(frozen=True, slots=True)
class Once:
    """One time."""

    at: datetime

    @property
    def terms(self) -> dict[str, object]:
        """The fields of the schedule."""
        return {"at": timestamp(self.at)}

    def has(self, due: datetime) -> bool:
        """Return whether it is due then."""
        return due == self.at


type Timing = ByCron | ByInterval | Once
