"""When JetStream's message schedules are due, by the rules of its server.

The server states in each firing when the schedule fires next, not when it was due. From that this
module derives the firing's own time: the last one before it.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.model.go_duration import interval

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_YEARS = 5
"""JetStream refuses cron expressions that are not due within them."""

_ALIASES = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_NAMES = {name: number for number, name in enumerate(_MONTHS, 1)} | {
    name: number for number, name in enumerate(_DAYS)
}
_BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def next_of_every(every: str, stored: datetime, known: datetime | None, now: datetime) -> datetime:
    """Return the next time of a schedule that fires at an interval.

    Args:
        every: A Go duration that JetStream has accepted.
        stored: When the schedule was stored.
        known: What its last firing said. None: it has not fired.
        now: It fires later than this.
    """
    between = interval(every)
    first = start_of_every(stored) + between
    if first > now:
        return first
    if known is not None and known > now:
        return known
    return first + ((now - first) // between + 1) * between


def start_of_every(stored: datetime) -> datetime:
    """Return from when a schedule counts its interval: the nearest second; of a half, the later."""
    return (stored + _SECOND / 2).replace(microsecond=0)


def last_of_every(every: str, start: datetime, before: datetime) -> datetime | None:
    """Return when a schedule at an interval, counted from `start`, was due last. None: not yet."""
    between = interval(every)
    number = (before - start) // between
    return start + number * between if number > 0 else None


def next_of_cron(expression: str, time_zone: str | None, after: datetime) -> datetime | None:
    """Return when a cron expression of six fields, or an alias, is due, in UTC. None: unknown.

    Args:
        expression: One that JetStream has accepted.
        time_zone: An IANA name. None: UTC.
        after: It is due later than this.
    """
    cron = _cron(expression, time_zone)
    return None if cron is None else cron.next(after)


def last_of_cron(expression: str, time_zone: str | None, before: datetime) -> datetime | None:
    """Return when a cron expression was due last before a time, in UTC. None: unknown.

    Expression and zone as of `next_of_cron`.
    """
    cron = _cron(expression, time_zone)
    return None if cron is None else cron.previous(before)


def due_of_cron(
    expression: str, time_zone: str | None, following: datetime, stored: datetime
) -> datetime:
    """Return the time that a firing by cron is for, in UTC.

    After an outage that is the last one of those that it stands for.

    Args:
        expression: As of `next_of_cron`.
        time_zone: The same.
        following: When the server says that the schedule fires next.
        stored: When the firing was stored: its time, if this machine knows the time zone not, or
            with other rules than the server.
    """
    cron = _cron(expression, time_zone)
    due = None if cron is None else cron.previous(following)
    if cron is None or due is None or cron.next(due) != following:
        return stored.astimezone(UTC).replace(microsecond=0)
    if due > stored + _SECOND:
        # After a change of half an hour, nats-server 2.15 skips half an hour of its times.
        return cron.previous(stored) or due
    return due


def firings_of_cron(
    expression: str, time_zone: str | None, start: datetime, end: datetime, most: int
) -> list[datetime]:
    """Return the first `most` times of a cron expression, from `start`, or 1970, to `end`, in UTC.

    Expression and zone as of `next_of_cron`. Empty if they are unknown.
    """
    cron = _cron(expression, time_zone)
    if cron is None:
        return []
    found = list[datetime]()
    due = cron.next(max(start, _EPOCH) - timedelta(microseconds=1))
    while due is not None and due <= end and len(found) < most:
        found.append(due)
        due = cron.next(due)
    return found


def _cron(expression: str, time_zone: str | None) -> "_Cron | None":
    """Return the times of an expression in a zone. None: one of them is unknown."""
    try:
        zone = UTC if time_zone is None else ZoneInfo(time_zone)
        return _Cron.of(_ALIASES.get(expression, expression), zone)
    except (ValueError, ZoneInfoNotFoundError):
        return None


@dataclass(frozen=True, slots=True)
class _Cron:
    """The numbers of each field, and whether both kinds of days are restricted."""

    seconds: set[int]
    minutes: set[int]
    hours: set[int]
    days: set[int]
    months: set[int]
    weekdays: set[int]
    takes_either_day: bool
    zone: tzinfo

    @classmethod
    def of(cls, expression: str, zone: tzinfo) -> "_Cron":
        fields = expression.split()
        seconds, minutes, hours, days, months, weekdays = (
            {number for part in field.split(",") if part for number in _range(part, *bounds)}
            for field, bounds in zip(fields, _BOUNDS, strict=True)
        )
        either = not (_has_star(fields[3]) or _has_star(fields[5]))
        return cls(seconds, minutes, hours, days, months, weekdays, either, zone)

    def next(self, after: datetime) -> datetime | None:
        found = after.astimezone(UTC).replace(microsecond=0) + _SECOND
        last = found.year + _YEARS
        while (local := found.astimezone(self.zone)).year <= last:
            if not self._has_day(local):
                found = self._midnight(local.date() + _DAY)
            elif local.hour not in self.hours:
                found += timedelta(minutes=60 - local.minute, seconds=-local.second)
            elif local.minute not in self.minutes:
                found += timedelta(seconds=60 - local.second)
            elif local.second not in self.seconds:
                found += _SECOND
            else:
                return found
        return None

    def previous(self, before: datetime) -> datetime | None:
        whole = before.astimezone(UTC).replace(microsecond=0)
        found = whole if whole < before else whole - _SECOND
        first = found.year - _YEARS
        while (local := found.astimezone(self.zone)).year >= first:
            if not self._has_day(local):
                found = self._midnight(local.date()) - _SECOND
            elif local.hour not in self.hours:
                # Half of it at most: at Lord Howe Island an hour may have 30 minutes.
                found -= timedelta(minutes=local.minute % 30, seconds=local.second + 1)
            elif local.minute not in self.minutes:
                found -= timedelta(seconds=local.second + 1)
            elif local.second not in self.seconds:
                found -= _SECOND
            else:
                return found
        return None

    def _midnight(self, day: date) -> datetime:
        """Return when a day of the zone begins, in UTC."""
        return datetime.combine(day, time(), self.zone).astimezone(UTC)

    def _has_day(self, local: datetime) -> bool:
        if local.month not in self.months:
            return False
        found = (local.day in self.days, local.isoweekday() % 7 in self.weekdays)
        return any(found) if self.takes_either_day else all(found)


def _range(part: str, low: int, high: int) -> range:
    """Return the numbers of ``*``, ``N``, ``N-M`` and of those with ``/step``."""
    stated, slash, step = part.partition("/")
    first, dash, last = stated.partition("-")
    if first in {"*", "?"}:
        return range(low, high + 1, int(step or 1))
    start = _number(first)
    end = _number(last) if dash else high if slash else start
    return range(start, end + 1, int(step or 1))


def _number(text: str) -> int:
    return int(_NAMES.get(text.lower(), text))


def _has_star(field: str) -> bool:
    """Return whether a field is unrestricted, by the server's rule: a star with a step is not."""
    parts = (part.partition("/") for part in field.split(","))
    return any(stated[:1] in {"*", "?"} and int(step or 1) == 1 for stated, _, step in parts)
