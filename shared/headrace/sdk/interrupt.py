"""Why an agent is stopped before its end."""

from enum import IntEnum


class Interrupt(IntEnum):
    """The reason; a greater one outweighs a smaller."""

    NONE = 0
    HANDED_BACK = 1
    SUPERSEDED = 2
    OVERDUE = 3
    CANCELED = 4
    LOST = 5


STOPS = frozenset({Interrupt.SUPERSEDED, Interrupt.OVERDUE, Interrupt.CANCELED})
"""Reasons for which nobody goes on with the run."""
