"""Durations as Go writes them, which JetStream reads: ``90s``, ``1h30m``."""

import re
from datetime import timedelta

_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
# Each digit is looked at once: a client's schedule may have many of them.
_PART = re.compile(r"(?<!\d)(\d++\.?\d*+|\.\d++)(h|ms|m|s|us|µs|ns)")


def interval(every: str) -> timedelta:
    """Return the length of a duration; of what is none, that of its parts that are.

    Raises:
        OverflowError: It is longer than any time.
    """
    parts = _PART.findall(every)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
