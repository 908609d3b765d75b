"""Token usage: its JSON form, and the totals of a run, which include earlier attempts."""

import time
from typing import Any

from headrace.model.events import Json
from headrace.sdk.signals import Usage

_LABELS = {"provider": "provider", "model": "model"}

_COUNTS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_input_tokens": "cachedInputTokens",
    "cache_write_input_tokens": "cacheWriteInputTokens",
}
"""AG-UI's names for the counts in `Usage`, by field."""

_COST = "cost"
"""Field of `Usage`, and our addition to AG-UI's TokenUsage in the log."""


def usage_of(reported: Any) -> Usage:  # noqa: ANN401  # any JSON
    """Parse AG-UI's TokenUsage; missing or malformed fields are ignored."""
    fields = reported if isinstance(reported, dict) else {}
    usage: dict[str, Any] = {key: str(fields.get(name) or "") for key, name in _LABELS.items()}
    for key, name in _COUNTS.items():
        if isinstance(count := fields.get(name), int):
            usage[key] = count
    if isinstance(cost := fields.get(_COST), int | float):
        usage[_COST] = cost
    return Usage(**usage)


def usage_json(usage: Usage) -> Json:
    """Return `usage` as AG-UI's TokenUsage."""
    named = {**_LABELS, **_COUNTS, _COST: _COST}
    fields = {name: getattr(usage, key) for key, name in named.items()}
    return {name: value for name, value in fields.items() if value}


class UsageTotals:
    """Totals of the agent's usage reports."""

    def __init__(self) -> None:
        """Start measuring time."""
        self._began = time.monotonic()
        self._tokens = 0
        self.input_tokens = 0
        """Input tokens reported so far, without those of child tasks."""
        self.output_tokens = 0
        """Output tokens reported so far, without those of child tasks."""
        self.cost = 0.0
        """Cost reported so far, without that of child tasks."""
        self._model = ""
        self._reported = False

    def add(self, used: Usage) -> None:
        """Add one report."""
        self._reported = True
        self._tokens += used.total_tokens or used.input_tokens + used.output_tokens
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cost += used.cost
        self._model = used.model or self._model

    @property
    def tokens(self) -> int:
        """Tokens reported so far."""
        return self._tokens

    @property
    def model(self) -> str:
        """The model reported last; empty if none was."""
        return self._model

    def add_tokens(self, tokens: int) -> None:
        """Add tokens that a child task has used."""
        if tokens:
            self._reported = True
            self._tokens += tokens

    def metadata(self) -> Json:
        """Return ``tokens_used``, ``model`` (last reported) and ``execution_time``, in seconds."""
        if not self._reported:
            return {}
        totals: Json = {"tokens_used": self._tokens}
        if self._model:
            totals["model"] = self._model
        totals["execution_time"] = round(time.monotonic() - self._began, 3)
        return totals
