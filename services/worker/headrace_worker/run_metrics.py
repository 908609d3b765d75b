"""Metrics of a worker's runs, by agent and version; each is recorded once per run, never per event.

A worker serves one version of an agent, so the versions of a fleet multiply no worker's series.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Self

from prometheus_client import Counter

from headrace import clock, metrics
from headrace.loop_metrics import LoopCount, LoopTimes
from headrace.model.task import BARE_MESSAGE, RUN_ENDED
from headrace.sdk.agent import Agent
from headrace_worker.appender import Appender
from headrace_worker.assignment import Assignment
from headrace_worker.usage import UsageTotals

_TOKEN_KINDS = ("input", "output")


@dataclass(slots=True)
class AgentSeries:
    """The series of the runs of one version of an agent."""

    attempts: LoopCount
    taken_over: Counter
    queue_wait: LoopTimes
    first_event: LoopTimes
    seconds: LoopTimes
    invoked: LoopTimes
    """Durations of attempts that did not fail."""
    ended: Mapping[str, LoopCount]
    """By the state in which a run ends."""
    tokens: Mapping[str, LoopCount]
    """By kind."""
    cost: LoopCount
    working: int = 0
    """Runs at work now. The gauge reads it when it is scraped, so a run costs it no call."""

    @classmethod
    def of(cls, *agent: str) -> Self:
        """Return the series of an agent's name and version, which are exported from now on."""
        series = cls(
            metrics.ATTEMPTS.labels(*agent),
            metrics.RUNS_TAKEN_OVER.labels(*agent),
            metrics.QUEUE_WAIT_SECONDS.labels(*agent),
            metrics.FIRST_EVENT_SECONDS.labels(*agent),
            metrics.RUN_SECONDS.labels(*agent),
            metrics.INVOKE_AGENT_SECONDS.labels(agent[0], ""),
            {one: metrics.RUNS_ENDED.labels(*agent, one) for one in (*RUN_ENDED, BARE_MESSAGE)},
            {kind: metrics.TOKENS.labels(*agent, kind) for kind in _TOKEN_KINDS},
            metrics.COST.labels(*agent),
        )
        metrics.RUNS_WORKING.labels(*agent).set_function(lambda: series.working)
        return series

    def observe_wait(self, assignment: Assignment) -> None:
        """Record how long the run's request was in the queue before its first attempt."""
        waited = clock.now() - assignment.message.metadata.timestamp
        self.queue_wait.observe(max(waited.total_seconds(), 0))

    def observe_end(self, appender: Appender, time: str, state: str) -> None:
        """Record the end in `state` of a run whose input is of `time`, RFC 3339."""
        self.ended[state].inc()
        age = clock.now() - datetime.fromisoformat(time)
        self.seconds.observe(max(age.total_seconds(), 0))
        if appender.first_append is not None:
            self.first_event.observe(appender.first_append - appender.began)

    def count_usage(self, totals: UsageTotals) -> None:
        """Count the tokens and cost that the agent reported, without those of child tasks."""
        for kind, tokens in zip(
            _TOKEN_KINDS, (totals.input_tokens, totals.output_tokens), strict=True
        ):
            self.tokens[kind].inc(max(tokens, 0))
        self.cost.inc(max(totals.cost, 0))


_series = cache(AgentSeries.of)


def observe_attempt(agent: Agent, seconds: float, error_type: str) -> None:
    """Record how long an attempt took, and why it failed; `error_type` is empty if it did not."""
    if error_type:
        metrics.INVOKE_AGENT_SECONDS.labels(agent.name, error_type).observe(seconds)
    else:
        series_of(agent).invoked.observe(seconds)


def series_of(agent: Agent) -> AgentSeries:
    """Return the agent's series; each look-up by labels takes longer than the count itself."""
    return _series(agent.name, agent.card.version)


def begin_at_zero(agents: Iterable[Agent]) -> None:
    """Export the metrics of `agents` before their first run.

    Prometheus computes no increase for a counter whose first value is 1, so an alert would miss the
    first occurrence.
    """
    for agent in agents:
        series_of(agent)
