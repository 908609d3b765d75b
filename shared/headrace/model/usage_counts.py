"""Tokens and costs as others state them: outside agents, model providers, and agents themselves."""

import math

from headrace.model.events import Json

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


_LABELS = ("provider", "model")
_COUNTS = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "reasoningTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
)


def add_usage(usage: list[Json], more: object) -> None:
    """Add `more`, an AG-UI TokenUsage, to the entry of its provider and model.

    Values that are not labels or counts are omitted, because clients refuse an event with an
    invalid count.
    """
    if not isinstance(more, dict):
        return
    labels = {key: more[key] for key in _LABELS if isinstance(more.get(key), str)}
    counts = {key: int(more[key]) for key in _COUNTS if _is_count(more.get(key))}
    if not counts:
        return
    for at, entry in enumerate(usage):
        if all(entry.get(key) == labels.get(key) for key in _LABELS):
            sums = {
                key: min(entry.get(key, 0) + count, MOST_TOKENS) for key, count in counts.items()
            }
            usage[at] = {**entry, **sums}
            return
    usage.append({**labels, **counts})


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST_TOKENS and int(value) == value
