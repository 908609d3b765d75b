"""Times as A2A writes them: RFC 3339, in UTC, with a Z (A2A 1.0, 5.6.1)."""

from datetime import datetime


def timestamp(time: datetime, timespec: str = "milliseconds") -> str:
    """Return `time`, which is in UTC, as precise as `datetime.isoformat` takes `timespec`."""
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")
