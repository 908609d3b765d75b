"""What a check concludes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
