"""Token usage and duration of a run, for its last status; includes earlier attempts."""

import time

from headrace.model.events import Json
from headrace.sdk.signals import Usage


class UsageTotals:
    """Totals of the agent's usage reports."""

    def __init__(self) -> None:
        """Start measuring time."""
        self._began = time.monotonic()
        self._tokens = 0
        self._model = ""
        self._reported = False

    def add(self, used: Usage) -> None:
        """Add one report."""
        self._reported = True
        self._tokens += used.total_tokens or used.input_tokens + used.output_tokens
        self._model = used.model or self._model

    @property
    def tokens(self) -> int:
        """Tokens reported so far."""
        return self._tokens

    def add_tokens(self, tokens: int) -> None:
        """Add tokens that a child task has used."""
        if tokens:
            self._reported = True
            self._tokens += tokens

    def metadata(self) -> Json:
        """Return ``tokens_used``, ``model`` (last reported) and ``execution_time``, in seconds."""
        if not self._reported:
            return {}
        told: Json = {"tokens_used": self._tokens}
        if self._model:
            told["model"] = self._model
        told["execution_time"] = round(time.monotonic() - self._began, 3)
        return told
