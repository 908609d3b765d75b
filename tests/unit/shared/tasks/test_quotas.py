"""Quotas: who is refused, until when, and what several gateways count."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.metrics import QUOTA_WARNINGS
from headrace.model.errors import StateUnavailable
from headrace.model.messages import GetUsage, ListTasks, TasksFound, UsageCounts, UsageFound
from headrace.model.task import INPUT_REQUIRED, SUBMITTED, WORKING
from headrace.tasks.quotas import (
    Quota,
    QuotaExceeded,
    Quotas,
    QuotaSubject,
    QuotasUnreadable,
    QuotaWarning,
    read_quotas,
)

NOW = datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC)


class Usage:
    """Task state's counts, by tenant, day, owner and root."""

    def __init__(self) -> None:
        self.asked: list[GetUsage] = []
        self.tokens: dict[tuple[str, str, str, str], int] = {}
        self.is_away = False
        self.open: list[tuple[str, str, str, str]] = []
        """Tenant, owner, agent and state of each task."""
        self.listed = 0

    async def list(self, query: ListTasks) -> TasksFound:
        self.listed += 1
        if self.is_away:
            raise StateUnavailable("away")
        number = sum(
            tenant == query.tenant
            and (query.any_owner or owner == query.owner)
            and (not query.agents or agent in query.agents)
            and state in query.states
            for tenant, owner, agent, state in self.open
        )
        return TasksFound(tasks=[], next_page_token="", page_size=1, total_size=number)

    async def usage(self, query: GetUsage) -> UsageFound:
        self.asked.append(query)
        if self.is_away:
            raise StateUnavailable("away")
        rows = [
            UsageCounts(
                owner=owner,
                root=root,
                input_tokens=0,
                output_tokens=0,
                tokens=tokens,
                cost=tokens / 1000,
                runs=1,
                run_seconds=0,
            )
            for (tenant, day, owner, root), tokens in self.tokens.items()
            if tenant == query.tenant and query.first <= day <= query.last
        ]
        return UsageFound(rows=rows)


@pytest.fixture
def usage() -> Usage:
    return Usage()


def opened(usage: Usage, *quotas: Quota, now: datetime = NOW) -> Quotas:
    """Return a gateway's quotas, which read the counts for each request."""
    return Quotas([*quotas], usage, lambda: now, fresh=0.0)


def use(owner: str = "ann", tenant: str = "acme", agent: str = "shop") -> QuotaSubject:
    return QuotaSubject(tenant, owner, agent)


def quota(**fields: object) -> Quota:
    return Quota.model_validate({"name": "q", **fields})


async def refused(
    usage: Usage, quota: Quota, *uses: QuotaSubject, now: datetime = NOW
) -> list[bool]:
    """Return for each use whether both of two gateways refuse it."""
    gateways = [opened(usage, quota, now=now) for _ in range(2)]
    answers = [{await is_refused(gateway, one) for gateway in gateways} for one in uses]
    return [answer for [answer] in answers]


async def is_refused(gateway: Quotas, use: QuotaSubject) -> bool:
    try:
        await gateway.check(use)
    except QuotaExceeded:
        return True
    return False


async def test_an_owners_quota_is_each_owners_and_each_tenants_own(usage: Usage) -> None:
    usage.tokens["acme", "2026-01-31", "ann", "shop"] = 60
    usage.tokens["acme", "2026-01-31", "ann", "other"] = 40
    usage.tokens["acme", "2026-01-31", "bob", "shop"] = 99
    people = use("ann"), use("bob"), use("ann", "umbrella")
    assert await refused(usage, quota(owner="*", tokens=100), *people) == [True, False, False]
    assert await refused(usage, quota(tokens=199), *people) == [True, True, False]
    assert await refused(usage, quota(tokens=200), *people) == [False, False, False]
    assert await refused(usage, quota(tenant="umbrella", tokens=0), *people) == [False, False, True]


async def test_an_agents_quota_counts_what_its_tasks_have_delegated(usage: Usage) -> None:
    usage.tokens["acme", "2026-01-31", "ann", "shop"] = 60
    uses = use(agent="shop"), use(agent="other")
    assert await refused(usage, quota(agent="shop", cost=0.06), *uses) == [True, False]
    assert await refused(usage, quota(agent="*", runs=1), *uses) == [True, False]
    assert {tuple(query.by) for query in usage.asked} == {("owner", "root")}


async def test_names_of_owners_are_those_of_their_credentials(usage: Usage) -> None:
    owner = quota(owner="ann@acme.example", tokens=0)
    uses = use("ann_40acme_2eexample"), use("ann")
    assert await refused(usage, owner, *uses) == [True, False]


async def test_a_refusal_lasts_until_the_period_ends(usage: Usage) -> None:
    usage.tokens["acme", "2026-01-01", "ann", "shop"] = 10
    by_month = opened(usage, quota(period="month", tokens=10))
    with pytest.raises(QuotaExceeded, match=r"10 tokens per month.*2026-02-01T00:00:00Z") as found:
        await by_month.check(use())
    assert found.value.retry_after == 30
    assert await refused(usage, quota(tokens=10), use()) == [False], "of another day"
    later = NOW + timedelta(minutes=1)
    assert await refused(usage, quota(period="month", tokens=10), use(), now=later) == [False]


async def test_near_the_limit_is_warned_once_and_counted_and_nothing_is_refused(
    usage: Usage, caplog: pytest.LogCaptureFixture
) -> None:
    usage.tokens["acme", "2026-01-31", "ann", "shop"] = 80
    soft = opened(usage, quota(name="soft", tokens=100))
    advised = opened(usage, quota(name="advised", tokens=80, enforce=False))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await soft.check(use())
        await advised.check(use())
    assert caplog.messages == [
        "quota soft: 80 of 100 tokens per day used by tenant=acme owner=- agent=-",
        "quota advised: 80 of 80 tokens per day used by tenant=acme owner=- agent=-",
    ]
    counted = {
        sample.labels["quota"]: sample.value
        for metric in QUOTA_WARNINGS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }
    assert (counted["soft"], counted["advised"]) == (3, 1)


async def test_without_task_state_the_last_counts_are_used_or_runs_begin(usage: Usage) -> None:
    usage.is_away = True
    gateway = opened(usage, quota(tokens=10))
    await gateway.check(use())
    usage.is_away = False
    usage.tokens["acme", "2026-01-31", "ann", "shop"] = 10
    with pytest.raises(QuotaExceeded):
        await gateway.check(use())
    usage.is_away = True
    with pytest.raises(QuotaExceeded):
        await gateway.check(use())


async def test_a_months_earlier_days_are_requested_again_once_task_state_is_back(
    usage: Usage,
) -> None:
    usage.is_away = True
    gateway = opened(usage, quota(period="month", tokens=10))
    await gateway.check(use())
    usage.is_away = False
    usage.tokens["acme", "2026-01-01", "ann", "shop"] = 10
    assert await is_refused(gateway, use())


async def test_counts_are_read_once_for_requests_of_the_same_moment() -> None:
    usage = Usage()
    gateway = Quotas([quota(tokens=10), quota(name="r", owner="*", runs=5)], usage, lambda: NOW)
    for _ in range(5):
        await gateway.check(use())
    await gateway.check(use(tenant="umbrella"))
    assert [query.tenant for query in usage.asked] == ["acme", "umbrella"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[quota]]\nname = "a"', "needs at least one of tokens, cost, runs and open"),
        ('[[quota]]\nname = "a"\ntokens = -1', r"quota\.0\.tokens"),
        ('[[quota]]\nname = "a"\ntokens = 1\nusers = 1', r"quota\.0\.users"),
        ('[[quota]]\nname = "a"\nruns = 1\n' * 2, "needs a name of its own; repeated: 'a'"),
        ("quota", "quotas.toml"),
    ],
)
def test_what_is_wrong_with_the_file_is_reported(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text(text)
    with pytest.raises(QuotasUnreadable, match=why):
        read_quotas(file)


def test_all_that_is_wrong_with_the_file_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "quotas.toml"
    file.write_text(
        '[[quota]]\nname = ""\ntokens = -1\nusers = 1\n'
        '[[quota]]\nname = "b"\n[[quota]]\nname = "c"\nopen = 1\nwarn_at = 2\n'
    )
    with pytest.raises(QuotasUnreadable) as found:
        read_quotas(file)
    named = str(found.value).removeprefix(f"{file}: ").split("; ")
    assert [one.partition(": ")[0] for one in named] == [
        "quota.0.name",
        "quota.0.tokens",
        "quota.0.users",
        "quota.1",
        "quota.2.warn_at",
    ]
    assert named[1] == "quota.0.tokens: Input should be greater than or equal to 0"


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    page = Path("docs/usage.md").read_text()
    file = tmp_path / "quotas.toml"
    file.write_text(page.partition("## Quotas")[2].partition("```toml\n")[2].partition("```")[0])
    names = [one.name for one in read_quotas(file)]
    assert names == ["acme-monthly", "per-owner", "research", "trial"]


async def test_a_used_up_quota_that_refuses_comes_before_one_that_requests_input(
    usage: Usage,
) -> None:
    usage.tokens["acme", "2026-01-31", "ann", "shop"] = 100
    asks, refuses = quota(tokens=100, at_limit="input-required"), quota(tokens=100)
    with pytest.raises(QuotaExceeded) as one:
        await opened(usage, asks).check(use())
    with pytest.raises(QuotaExceeded) as both:
        await opened(usage, asks, refuses).check(use())
    assert (one.value.asks, both.value.asks) == (True, False)


async def test_open_tasks_are_limited_by_tenant_owner_and_agent(usage: Usage) -> None:
    usage.open = [
        ("acme", "ann", "shop", SUBMITTED),
        ("acme", "ann", "shop", WORKING),
        ("acme", "ann", "faq", INPUT_REQUIRED),
    ]
    uses = [use(), use(agent="faq"), use("bob"), use(tenant="other")]
    assert await refused(usage, quota(open=2), *uses) == [True, True, True, False]
    assert await refused(usage, quota(open=2, owner="*"), *uses) == [True, True, False, False]
    assert await refused(usage, quota(open=2, agent="*"), *uses) == [True, False, True, False]
    assert await refused(usage, quota(open=3), *uses) == [False] * 4


async def test_a_message_to_an_open_task_opens_none(usage: Usage) -> None:
    usage.open = [("acme", "ann", "shop", WORKING)]
    quotas = opened(usage, quota(open=1, owner="*"))
    await quotas.check(use(), opens=False)
    with pytest.raises(QuotaExceeded, match="'q' is used up: 1 open tasks; try again when one"):
        await quotas.check(use())


async def test_what_a_process_begins_counts_at_once_and_is_counted_again_before_a_refusal(
    usage: Usage,
) -> None:
    quotas = Quotas([quota(open=2, owner="*")], usage, lambda: NOW, fresh=60.0)
    for _ in range(2):
        await quotas.check(use())
        quotas.began(use())
        usage.open.append(("acme", "ann", "shop", SUBMITTED))
    assert usage.listed == 1, "one count: one list of both states"
    assert await is_refused(quotas, use())
    usage.open.clear()
    await asyncio.sleep(0.11)  # As long as one count is used for refusals.
    assert not await is_refused(quotas, use())
    assert not await is_refused(quotas, use("bob"))


class StartsWhatItLists(Usage):
    """Counts in which each task begins to work as soon as it was listed."""

    async def list(self, query: ListTasks) -> TasksFound:
        found = await super().list(query)
        self.open = [(tenant, owner, agent, WORKING) for tenant, owner, agent, _ in self.open]
        return found


async def test_a_task_that_begins_to_work_while_it_is_counted_counts_once() -> None:
    usage = StartsWhatItLists()
    usage.open = [("acme", "ann", "shop", SUBMITTED)]
    assert await refused(usage, quota(open=2), use()) == [False]
    assert [one[-1] for one in usage.open] == [WORKING], "it was listed"


async def test_submitted_and_working_tasks_count(usage: Usage) -> None:
    usage.open = [("acme", "ann", "shop", SUBMITTED), ("acme", "ann", "shop", WORKING)]
    assert await refused(usage, quota(open=2), use()) == [True]
    assert await refused(usage, quota(open=3), use()) == [False]


async def test_without_task_state_tasks_are_opened(usage: Usage) -> None:
    usage.open = [("acme", "ann", "shop", WORKING)]
    usage.is_away = True
    assert await refused(usage, quota(open=1), use()) == [False]


async def test_open_tasks_near_their_limit_are_warned_of(
    usage: Usage, caplog: pytest.LogCaptureFixture
) -> None:
    usage.open = [("acme", "ann", "shop", WORKING)]
    warnings: list[QuotaWarning] = []
    quotas = Quotas([quota(open=2, warn_at=0.5)], usage, lambda: NOW, 0.0, warnings.append)
    await quotas.check(use())
    assert warnings == [QuotaWarning("q", "open", 1, 2, "now")]
    assert "quota q: 1 of 2 open tasks used by tenant=acme owner=- agent=-" in caplog.text
