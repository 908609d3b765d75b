"""What a check finds."""

from dataclasses import dataclass
from typing import Literal

type Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    """``problem``: the fleet does not work, or loses promises; ``warning``: it soon might not."""
    subject: str
    """What was looked at: ``settings``, ``NATS``, ``Redis``, …"""
    text: str
    remedy: str = ""
    """What the operator should do; empty if nothing."""


def ok(subject: str, text: str) -> Finding:
    """Return a finding about which nothing needs to be done."""
    return Finding("ok", subject, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding about what works for now."""
    return Finding("warning", subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding about what does not work."""
    return Finding("problem", subject, text, remedy)
