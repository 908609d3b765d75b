"""Reasons to stop an agent before it ends."""

from enum import IntEnum


class Interrupt(IntEnum):
    """The reason to stop. A greater value takes precedence."""

    NONE = 0
    HANDED_BACK = 1
    SUPERSEDED = 2
    OVERDUE = 3
    CANCELED = 4
    LOST = 5


STOPS = frozenset({Interrupt.SUPERSEDED, Interrupt.OVERDUE, Interrupt.CANCELED})
"""Reasons after which no worker continues the run."""
