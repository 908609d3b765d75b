"""What a run has cost, as its last status tells: former attempts' share is read from the log."""

import time

from headrace.model.events import Json
from headrace.sdk.signals import Usage


class UsageTotals:
    """Adds up what the agent reports; nothing reported, nothing told."""

    def __init__(self) -> None:
        """Begin now."""
        self._began = time.monotonic()
        self._tokens = 0
        self._model = ""
        self._reported = False

    def add(self, used: Usage) -> None:
        """Take one report."""
        self._reported = True
        self._tokens += used.total_tokens or used.input_tokens + used.output_tokens
        self._model = used.model or self._model

    @property
    def tokens(self) -> int:
        """Tokens reported so far."""
        return self._tokens

    def add_tokens(self, tokens: int) -> None:
        """Take what another agent reports to have used for this one."""
        if tokens:
            self._reported = True
            self._tokens += tokens

    def metadata(self) -> Json:
        """Return ``tokens_used``, ``model`` (the last one named) and ``execution_time`` (s)."""
        if not self._reported:
            return {}
        told: Json = {"tokens_used": self._tokens}
        if self._model:
            told["model"] = self._model
        told["execution_time"] = round(time.monotonic() - self._began, 3)
        return told
