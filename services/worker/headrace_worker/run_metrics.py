"""Metrics of a worker's runs, by agent; each is recorded once per run, never per event."""

from collections.abc import Iterable
from datetime import datetime

from headrace import clock, metrics
from headrace.model.task import RUN_ENDED
from headrace_worker.claim import Assignment
from headrace_worker.execution import Execution


def begin_at_zero(agents: Iterable[str]) -> None:
    """Export the metrics of `agents` before their first run.

    Prometheus sees no increase in a counter whose first value is 1, so that an alert would miss the
    first occurrence.
    """
    for agent in agents:
        for metric in _BY_AGENT:
            metric.labels(agent)
        for state in RUN_ENDED:
            metrics.RUNS_ENDED.labels(agent, state)
        for kind in _TOKEN_KINDS:
            metrics.TOKENS.labels(agent, kind)
        metrics.COST.labels(agent)


def observe_wait(assignment: Assignment) -> None:
    """Record how long the run's request was in the queue before its first attempt."""
    waited = clock.now() - assignment.message.metadata.timestamp
    seconds = max(waited.total_seconds(), 0)
    metrics.QUEUE_WAIT_SECONDS.labels(assignment.key.agent).observe(seconds)


def observe_end(execution: Execution, state: str) -> None:
    """Record the end of a run in `state`."""
    agent, appender = execution.key.agent, execution.appender
    metrics.RUNS_ENDED.labels(agent, state).inc()
    age = clock.now() - datetime.fromisoformat(execution.recovered.time)
    metrics.RUN_SECONDS.labels(agent).observe(max(age.total_seconds(), 0))
    if appender.first_append is not None:
        waited = appender.first_append - appender.began
        metrics.FIRST_EVENT_SECONDS.labels(agent).observe(waited)


def count_usage(execution: Execution) -> None:
    """Count the tokens and cost that the agent reported, without those of its child tasks."""
    totals = execution.emitter.usage_totals
    for kind, tokens in zip(_TOKEN_KINDS, (totals.input_tokens, totals.output_tokens), strict=True):
        metrics.TOKENS.labels(execution.key.agent, kind).inc(max(tokens, 0))
    metrics.COST.labels(execution.key.agent).inc(max(totals.cost, 0))


_TOKEN_KINDS = ("input", "output")

_BY_AGENT = (
    metrics.ATTEMPTS,
    metrics.RUNS_TAKEN_OVER,
    metrics.RUNS_WORKING,
    metrics.QUEUE_WAIT_SECONDS,
    metrics.FIRST_EVENT_SECONDS,
    metrics.RUN_SECONDS,
)
