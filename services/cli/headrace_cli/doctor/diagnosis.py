"""What a check concludes, and the check of a server's clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.metrics import MAX_CLOCK_OFFSET

type Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at."""

    level: Level
    """``problem``: the fleet does not work, or loses promises; ``warning``: it soon might not."""
    subject: str
    """What was looked at: ``settings``, ``NATS``, ``Redis``, …"""
    text: str
    remedy: str = ""
    """What the operator should do; empty if nothing."""


def ok(subject: str, text: str) -> Diagnosis:
    """Return a diagnosis about which nothing needs to be done."""
    return Diagnosis("ok", subject, text)


def warning(subject: str, text: str, remedy: str) -> Diagnosis:
    """Return a diagnosis about what works for now."""
    return Diagnosis("warning", subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Diagnosis:
    """Return a diagnosis about what does not work."""
    return Diagnosis("problem", subject, text, remedy)


def first_of(names: Sequence[str], shown: int) -> str:
    """Return the first of some things' names, at most `shown`, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"


def check_clock(server: str, before: float, there: float, after: float) -> Diagnosis:
    """Return what is found about a server whose clock showed `there`.

    `before` and `after` are this machine's clock before and after the request. All are seconds
    since 1970.
    """
    off = there - after if there > after else min(there - before, 0.0)
    if abs(off) > MAX_CLOCK_OFFSET:
        return problem(
            server,
            f"its clock is {off:+.1f} s from this machine's",
            "synchronize both with NTP: deadlines are wrong by as much",
        )
    return ok(server, "its clock is synchronized with this machine's")
