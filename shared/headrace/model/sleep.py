"""Sleeps in a log: those of the agent in a run, and those of the run between two attempts."""

from datetime import datetime

from headrace.model.events import (
    ASLEEP,
    ASLEEP_FOR,
    ASLEEP_UNTIL,
    SLEEP,
    Json,
    read_time,
    status_metadata,
    why_handed_back,
)


def sleep_of(event: Json) -> tuple[str, datetime] | None:
    """Return the sleep that `event` records: its id, and when it ends."""
    match status_metadata(event).get(SLEEP):
        case {"id": str(name), "until": str(until)} if (end := read_time(until)) is not None:
            return name, end
    return None


def asleep_until(event: Json) -> datetime | None:
    """Return when the next attempt begins, if `event` ended one for a sleep."""
    is_asleep = why_handed_back(event) == ASLEEP
    return read_time(status_metadata(event).get(ASLEEP_UNTIL)) if is_asleep else None


def asleep_for(event: Json) -> frozenset[str]:
    """Return the sources that end the sleep for which `event` ended an attempt."""
    sources = status_metadata(event).get(ASLEEP_FOR)
    return frozenset(sources) if isinstance(sources, list) else frozenset()
