"""What a log says of sleeps: of the agent within its run, and of the run between two attempts."""

from datetime import datetime

from headrace.model.events import ASLEEP, ASLEEP_UNTIL, HANDED_BACK, SLEEP, Json
from headrace.model.timestamp import read_time


def sleep_of(event: Json) -> tuple[str, datetime] | None:
    """Return the sleep that `event` records: its id, and when it ends."""
    match event:
        case {"statusUpdate": {"metadata": {**metadata}}}:
            pass
        case _:
            return None
    match metadata.get(SLEEP):
        case {"id": str(name), "until": str(until)} if (end := read_time(until)) is not None:
            return name, end
    return None


def asleep_until(event: Json) -> datetime | None:
    """Return when the next attempt begins, if `event` ended one for a sleep."""
    match event:
        case {"statusUpdate": {"metadata": {**metadata}}} if metadata.get(HANDED_BACK) == ASLEEP:
            until = metadata.get(ASLEEP_UNTIL)
            return read_time(until)
    return None
