"""Sleeps in a log: those of the agent in a run, and those of the run between two attempts."""

from datetime import datetime

from headrace.model.events import ASLEEP, ASLEEP_UNTIL, HANDED_BACK, SLEEP, Json
from headrace.model.timestamp import read_time


def sleep_of(event: Json) -> tuple[str, datetime] | None:
    """Return the sleep that `event` records: its id, and when it ends."""
    match _metadata(event).get(SLEEP):
        case {"id": str(name), "until": str(until)} if (end := read_time(until)) is not None:
            return name, end
    return None


def asleep_until(event: Json) -> datetime | None:
    """Return when the next attempt begins, if `event` ended one for a sleep."""
    metadata = _metadata(event)
    return read_time(metadata.get(ASLEEP_UNTIL)) if metadata.get(HANDED_BACK) == ASLEEP else None


def _metadata(event: Json) -> Json:
    """Return the metadata of a status; empty: `event` is none, or has none."""
    status = event.get("statusUpdate")
    metadata = status.get("metadata") if isinstance(status, dict) else None
    return metadata if isinstance(metadata, dict) else {}
