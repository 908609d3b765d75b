"""The header ``Retry-After`` of any HTTP response (RFC 9110, 10.2.3)."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

from headrace import clock

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
"""Providers of models state fractions, too."""


def seconds_to_wait(retry_after: str | None) -> float | None:
    """Return the seconds that the header asks for, in numbers or by a date; None: it is neither."""
    value = (retry_after or "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return max((date - clock.now()).total_seconds(), 0.0)
