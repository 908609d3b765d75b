"""AG-UI's TokenUsage, the JSON form of `Usage`."""

from typing import Any

from headrace.model.events import Json
from headrace.model.usage_counts import cost_of, token_count
from headrace.sdk.signals import Usage

_LABELS = {"provider": "provider", "model": "model"}

COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
}
"""AG-UI's names for the counts in `Usage`, by field."""

COST = "cost"
"""Field of `Usage`, and our addition to AG-UI's TokenUsage in the log."""


def usage_of(reported: Any) -> Usage:  # noqa: ANN401  # any JSON
    """Parse AG-UI's TokenUsage; missing or malformed fields are ignored."""
    fields = reported if isinstance(reported, dict) else {}
    labels: dict[str, Any] = {key: str(fields.get(name) or "") for key, name in _LABELS.items()}
    counts: dict[str, Any] = {key: token_count(fields.get(name)) for key, name in COUNTS.items()}
    return Usage(**labels, **counts, cost=cost_of(fields.get(COST)))


def usage_json(usage: Usage) -> Json:
    """Return `usage` as AG-UI's TokenUsage."""
    named = {**_LABELS, **COUNTS, COST: COST}
    fields = {name: getattr(usage, key) for key, name in named.items()}
    return {name: value for name, value in fields.items() if value}
