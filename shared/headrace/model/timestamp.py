"""Times as A2A writes them: RFC 3339, in UTC, with a Z (A2A 1.0, 5.6.1)."""

from datetime import datetime


def timestamp(time: datetime, timespec: str = "milliseconds") -> str:
    """Return `time`, which is in UTC, as precise as `datetime.isoformat` takes `timespec`."""
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")


def read_time(text: object) -> datetime | None:
    """Return an RFC 3339 time. None: the text is none, as one without an offset from UTC."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None
