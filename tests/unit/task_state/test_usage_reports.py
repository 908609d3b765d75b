"""How usage is grouped, and which periods are."""

import asyncio
from collections import Counter
from typing import cast

import pytest

from headrace.model import events, parts
from headrace.model.change import read_change
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.messages import GetUsage, UsageFound
from headrace.model.task import WORKING
from headrace_task_state.queries.counts import UsageReports
from headrace_task_state.queries.frontier import Frontier
from headrace_task_state.store import Reader
from headrace_task_state.usage import UsageRow, records_of

ROWS = [
    UsageRow("2026-01-30", "ann", "shop", "shop", Counter(input=10, tokens=12, cost=250_000)),
    UsageRow("2026-01-31", "ann", "stock", "shop", Counter(input=5, tokens=5, runs=1, ms=1500)),
    UsageRow("2026-02-01", "bob", "stock", "stock", Counter(output=3, tokens=3, runs=2)),
]


class Rows:
    """A reader with rows, and a frontier that is always reached."""

    def __init__(self) -> None:
        self.is_reached = False

    async def usage(self, tenant: str, days: list[str]) -> list[UsageRow]:
        assert (tenant, self.is_reached) == ("acme", True)
        return [row for row in ROWS if row.day in days]

    async def reached(self) -> None:
        await asyncio.sleep(0)
        self.is_reached = True


async def report(first: str, last: str, *by: str, owner: str | None = None) -> UsageFound:
    rows = Rows()
    reports = UsageReports(cast("Reader", rows), cast("Frontier", rows))
    query = GetUsage.model_validate(
        {"tenant": "acme", "owner": owner, "first": first, "last": last, "by": by}
    )
    return UsageFound.model_validate(await reports.get(query))


async def test_delegated_usage_counts_for_the_root_by_root_and_for_its_agent_by_agent() -> None:
    period = ("2026-01-30", "2026-02-01")
    by_agent = (await report(*period, "agent")).rows
    by_root = (await report(*period, "root")).rows
    assert [(row.agent, row.tokens, row.runs) for row in by_agent] == [
        ("shop", 12, 0),
        ("stock", 8, 3),
    ]
    assert [(row.root, row.tokens, row.runs) for row in by_root] == [
        ("shop", 17, 1),
        ("stock", 3, 2),
    ]


async def test_a_period_over_months_is_summed_for_the_tenant_and_for_one_owner() -> None:
    [whole] = (await report("2026-01-30", "2026-02-01")).rows
    assert (whole.input_tokens, whole.output_tokens, whole.tokens) == (15, 3, 20)
    assert (whole.cost, whole.runs, whole.run_seconds) == (0.25, 3, 1.5)
    [of_bob] = (await report("2026-01-30", "2026-02-01", "owner", owner="bob")).rows
    assert (of_bob.owner, of_bob.tokens) == ("bob", 3)
    assert [row.day for row in (await report("2026-01-30", "2026-01-31", "day")).rows] == [
        "2026-01-30",
        "2026-01-31",
    ]


@pytest.mark.parametrize(
    ("first", "last", "rule"),
    [
        ("2026-01-02", "2026-01-01", "1 to 100 days"),
        ("2026-01-01", "2026-04-11", "1 to 100 days"),
        ("yesterday", "2026-01-01", "YYYY-MM-DD"),
    ],
)
async def test_other_periods_are_refused(first: str, last: str, rule: str) -> None:
    with pytest.raises(InvalidName, match=rule):
        await report(first, last)


@pytest.mark.parametrize(("role", "reported"), [("ROLE_AGENT", [100]), ("ROLE_USER", [])])
def test_a_users_message_that_a_run_takes_reports_no_usage(role: str, reported: list[int]) -> None:
    message: Json = {
        "messageId": "m",
        "role": role,
        "parts": [parts.usage_part({"inputTokens": 100})],
    }
    taken: Json = {
        "taskId": "t",
        "contextId": "c",
        "status": {"state": WORKING, "timestamp": "2026-01-01T00:00:00Z", "message": message},
        "metadata": {events.TAKEN: 2},
    }
    change = read_change({"statusUpdate": taken}, 3)
    assert [one.input for one in records_of(change, 0, is_working=True)] == reported
