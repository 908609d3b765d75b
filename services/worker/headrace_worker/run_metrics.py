"""Metrics of a worker's runs, by agent; each is recorded once per run, never per event."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Self

from prometheus_client import Counter, Gauge, Histogram

from headrace import clock, metrics
from headrace.dataclass import dataclass
from headrace.model.task import RUN_ENDED
from headrace_worker.assignment import Assignment
from headrace_worker.execution import Execution

_TOKEN_KINDS = ("input", "output")


@dataclass(frozen=True, slots=True)
class AgentSeries:
    """The series of one agent's runs."""

    working: Gauge
    attempts: Counter
    queue_wait: Histogram
    first_event: Histogram
    seconds: Histogram
    ended: Mapping[str, Counter]
    """By the state in which a run ends."""
    tokens: Mapping[str, Counter]
    """By kind."""
    cost: Counter

    @classmethod
    def of(cls, agent: str) -> Self:
        """Return the series of `agent`, which are exported from now on."""
        return cls(
            metrics.RUNS_WORKING.labels(agent),
            metrics.ATTEMPTS.labels(agent),
            metrics.QUEUE_WAIT_SECONDS.labels(agent),
            metrics.FIRST_EVENT_SECONDS.labels(agent),
            metrics.RUN_SECONDS.labels(agent),
            {state: metrics.RUNS_ENDED.labels(agent, state) for state in RUN_ENDED},
            {kind: metrics.TOKENS.labels(agent, kind) for kind in _TOKEN_KINDS},
            metrics.COST.labels(agent),
        )


@cache
def series_of(agent: str) -> AgentSeries:
    """Return the series of `agent`; each look-up by labels takes longer than the count itself."""
    return AgentSeries.of(agent)


def begin_at_zero(agents: Iterable[str]) -> None:
    """Export the metrics of `agents` before their first run.

    Prometheus computes no increase for a counter whose first value is 1, so an alert would miss the
    first occurrence.
    """
    for agent in agents:
        series_of(agent)
        metrics.RUNS_TAKEN_OVER.labels(agent)


def observe_wait(assignment: Assignment) -> None:
    """Record how long the run's request was in the queue before its first attempt."""
    waited = clock.now() - assignment.message.metadata.timestamp
    series_of(assignment.key.agent).queue_wait.observe(max(waited.total_seconds(), 0))


def observe_end(execution: Execution, state: str) -> None:
    """Record the end of a run in `state`."""
    agent, appender = execution.key.agent, execution.appender
    series = series_of(agent)
    ended = series.ended.get(state) or metrics.RUNS_ENDED.labels(agent, state)
    ended.inc()
    age = clock.now() - datetime.fromisoformat(execution.recovered.time)
    series.seconds.observe(max(age.total_seconds(), 0))
    if appender.first_append is not None:
        series.first_event.observe(appender.first_append - appender.began)


def count_usage(execution: Execution) -> None:
    """Count the tokens and cost that the agent reported, without those of its child tasks."""
    totals = execution.emitter.usage_totals
    if not (totals.input_tokens or totals.output_tokens or totals.cost):
        return
    series = series_of(execution.key.agent)
    for kind, tokens in zip(_TOKEN_KINDS, (totals.input_tokens, totals.output_tokens), strict=True):
        series.tokens[kind].inc(max(tokens, 0))
    series.cost.inc(max(totals.cost, 0))
