"""The tool calls of an attempt, as its agent emits them: their durations, and their spans."""

import time
from functools import lru_cache
from typing import Any

from headrace import metrics
from headrace.loop_metrics import LoopTimes
from headrace.tracing import OTHER
from headrace_worker.spans import ToolSpans

_MOST_NAMES = 100
"""Tools of a process with a series of their own. A model may call tools that do not exist."""


class ObservedToolCalls:
    """Observes calls from their complete arguments to their results.

    A call whose result the attempt does not emit is none: the client executes it, or the attempt
    ended before.
    """

    __slots__ = ("_agent", "_begun", "_spans")

    def __init__(self, agent: str, spans: ToolSpans | None = None) -> None:
        """Observe the calls of `agent`; `spans` is None if traces are not exported."""
        self._agent, self._spans = agent, spans
        self._begun: dict[str, tuple[str, float]] | None = None

    def add_arguments(self, call_id: str, piece: str) -> None:
        """Note a piece of a call's arguments."""
        if self._spans is not None:
            self._spans.add_arguments(call_id, piece)

    def begin(self, call_id: str, name: str, arguments: Any = None) -> None:  # noqa: ANN401  # any JSON
        """Note that the arguments of a call of the tool `name` are complete."""
        if self._begun is None:
            self._begun = {}
        self._begun[call_id] = name, time.perf_counter()
        if self._spans is not None:
            self._spans.begin(call_id, name, arguments)

    def end(self, call_id: str, result: Any, *, has_failed: bool) -> None:  # noqa: ANN401  # any JSON
        """Note the result of a call; one whose beginning is unknown is not measured."""
        begun = self._begun.pop(call_id, None) if self._begun else None
        if begun is not None:
            name, since = begun
            _series(self._agent, name, OTHER if has_failed else "").observe(
                time.perf_counter() - since
            )
        if self._spans is not None:
            self._spans.end(call_id, result, has_failed=has_failed)


_names = set[str]()


@lru_cache(maxsize=1024)
def _series(agent: str, tool: str, error_type: str) -> LoopTimes:
    if len(_names) < _MOST_NAMES:
        _names.add(tool)
    name = tool if tool in _names else OTHER
    return metrics.EXECUTE_TOOL_SECONDS.labels(agent, name, error_type)
