"""Counts, complete as of the request's arrival: usage, and the open tasks of an agent."""

from collections import Counter, defaultdict
from datetime import date, timedelta

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import MOST_USAGE_DAYS, CountOpenTasks, GetUsage
from headrace.model.subjects import is_token
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import Reader
from headrace_task_state.usage import (
    COST,
    COST_UNIT,
    INPUT,
    MILLISECONDS,
    OUTPUT,
    RUNS,
    TOKENS,
    UsageRow,
)


class UsageReports:
    """Answers ``usage``."""

    def __init__(self, reader: Reader, frontier: Frontier) -> None:
        """Read the counts once the view has caught up."""
        self._reader, self._frontier = reader, frontier

    async def get(self, query: GetUsage) -> Json:
        """Return a `UsageFound` as JSON.

        Raises:
            InvalidName: the days are invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        days = _days(query)
        await self._frontier.reached()
        rows = await self._reader.usage(query.tenant, days)
        return {"rows": _grouped(rows, query)}


def _days(query: GetUsage) -> list[str]:
    first, last = _date(query.first), _date(query.last)
    number = (last - first).days + 1
    if not 0 < number <= MOST_USAGE_DAYS:
        rule = f"must be 1 to {MOST_USAGE_DAYS} days from the first to the last"
        raise InvalidName("period", f"{query.first} to {query.last}", rule)
    return [(first + timedelta(days)).isoformat() for days in range(number)]


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidName("day", text, "must be a date, YYYY-MM-DD") from None


def _grouped(rows: list[UsageRow], query: GetUsage) -> list[Json]:
    groups = defaultdict[tuple[str, ...], Counter[str]](Counter)
    for row in rows:
        if query.owner in (None, row.owner):
            groups[tuple(getattr(row, name) for name in query.by)].update(row.counts)
    return [
        {**dict(zip(query.by, group, strict=True)), **_shown(counts)}
        for group, counts in sorted(groups.items())
    ]


def _shown(counts: Counter[str]) -> Json:
    return {
        "input_tokens": counts[INPUT],
        "output_tokens": counts[OUTPUT],
        "tokens": counts[TOKENS],
        "cost": counts[COST] / COST_UNIT,
        "runs": counts[RUNS],
        "run_seconds": counts[MILLISECONDS] / 1000,
    }


class OpenTasks:
    """Answers ``open``: how many tasks are not over, by the version that they are pinned to."""

    def __init__(self, reader: Reader, frontier: Frontier) -> None:
        """Count in the view once it has caught up."""
        self._reader, self._frontier = reader, frontier

    async def count(self, query: CountOpenTasks) -> Json:
        """Return an `OpenTasksCounted` as JSON.

        Raises:
            InvalidName: the agent's name is invalid.
            StateUnavailable: the view does not catch up, or the store does not answer.
            BusUnavailable: NATS does not answer.
        """
        if not is_token(query.agent):
            raise InvalidName("agent", query.agent, "is not an agent name")
        await self._frontier.reached()
        return {"versions": dict(await self._reader.open_tasks(query.agent))}
