"""Tokens and costs as others state them: outside agents, model providers, and agents themselves."""

import math

MOST_TOKENS = 2**53 - 1
"""The largest whole number that all JSON parsers read exactly."""


def token_count(stated: object) -> int:
    """Return a stated number of tokens; 0 for anything but a whole number from 0 to the most."""
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return 0
    return int(stated) if 0 <= stated <= MOST_TOKENS and int(stated) == stated else 0


def cost_of(stated: object) -> float:
    """Return a stated cost; 0 for anything but a finite number that is not negative."""
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return 0.0
    try:
        cost = float(stated)
    except OverflowError:
        return 0.0
    return cost if 0 <= cost < math.inf else 0.0
