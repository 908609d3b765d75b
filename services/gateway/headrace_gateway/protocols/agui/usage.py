"""Adding up what models used, per provider and model."""

from headrace.model.events import Json

_LABELS = ("provider", "model")
_COUNTS = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "reasoningTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
)
_MOST = 2**53 - 1
"""Counts above this do not survive JavaScript; a client would refuse the event."""


def add_usage(usage: list[Json], more: object) -> None:
    """Add `more`, an AG-UI TokenUsage, to the entry of its provider and model.

    What is no label or count is left out: clients refuse an event with a count that is none.
    """
    if not isinstance(more, dict):
        return
    labels = {key: more[key] for key in _LABELS if isinstance(more.get(key), str)}
    counts = {key: int(more[key]) for key in _COUNTS if _is_count(more.get(key))}
    if not counts:
        return
    for at, entry in enumerate(usage):
        if all(entry.get(key) == labels.get(key) for key in _LABELS):
            sums = {key: min(entry.get(key, 0) + count, _MOST) for key, count in counts.items()}
            usage[at] = {**entry, **sums}
            return
    usage.append({**labels, **counts})


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _MOST and int(value) == value
