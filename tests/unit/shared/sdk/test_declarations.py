"""Triggers and schedules that are declared above an agent."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Agent, RunContext, agent, on, schedule
from headrace.sdk.errors import Misdeclared
from tests.architecture.tree import ROOT
from tests.support.document import blocks


@on(
    "orders.created",
    stream="ORDERS",
    filter={"body.total": {"min": 100}, "headers.Region": ["eu", "us"], "body.paid": True},
    text="Check order {body.id}.",
    data={"lines": "body.lines"},
    answers={"subject": "orders.checked", "stream": "ORDERS"},
)
@on("orders.changed", name="changed")
@schedule("open the shop", name="launch", at=datetime(2030, 1, 31, 9, tzinfo=UTC))
@schedule(
    [{"data": {"all": True}}],
    cron="0 2 * * *",
    time_zone="Europe/Paris",
    overlap="queue",
    answers={"subject": "stock.counted"},
)
@agent(description="Checks orders.")
async def shop(ctx: RunContext) -> AsyncIterator[str]:
    yield f"checked {ctx.prompt}"


def documented(page: str) -> Agent:
    """Return the agent of a page."""
    [module] = [one for one in blocks(ROOT / "docs" / page, "python") if one.title]
    names = dict[str, Any]()
    exec(compile(module.code, page, "exec"), names)  # noqa: S102 - the code that is documented
    declared = names["shop"]
    assert isinstance(declared, Agent)
    return declared


def test_declarations_are_kept_in_the_order_of_the_code() -> None:
    assert shop.triggers == (
        {
            "subject": "orders.created",
            "stream": "ORDERS",
            "filter": {
                "body.total": {"min": 100.0},
                "headers.Region": ["eu", "us"],
                "body.paid": True,
            },
            "text": "Check order {body.id}.",
            "data": {"lines": "body.lines"},
            "answers": {"subject": "orders.checked", "stream": "ORDERS"},
        },
        {"name": "changed", "subject": "orders.changed"},
    )
    assert shop.schedules == (
        {"name": "launch", "message": "open the shop", "at": "2030-01-31T09:00:00Z"},
        {
            "message": [{"data": {"all": True}}],
            "cron": "0 2 * * *",
            "timeZone": "Europe/Paris",
            "overlap": "queue",
            "answers": {"subject": "stock.counted"},
        },
    )


async def test_the_agent_is_called_as_without_them() -> None:
    assert (await shop("42")).text == "checked 42"


def test_the_documented_agents_declare_what_the_pages_state() -> None:
    assert documented("triggers.md").triggers == (
        {
            "subject": "orders.created",
            "stream": "ORDERS",
            "filter": {"body.total": {"min": 100.0}},
            "text": "Check order {body.id} of {body.customer}.",
        },
    )
    assert documented("schedules.md").schedules == (
        {"message": "check the orders", "every": "15m"},
        {
            "name": "nightly",
            "message": "count the stock",
            "cron": "0 2 * * *",
            "timeZone": "Europe/Paris",
        },
    )


def test_a_name_is_taken_also_by_default() -> None:
    with pytest.raises(Misdeclared, match="two triggers of agent 'shop' are named 'shop'"):
        on("orders.deleted", name="shop")(shop)


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(Misdeclared, match=r"at: .*timezone.* \(test_declarations\.py:\d+\)$"):
        schedule("open", name="a", at="2030-01-31T09:00:00")(shop)
