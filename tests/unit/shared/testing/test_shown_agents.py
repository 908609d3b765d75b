"""Agents that pages on what an agent can do show: they run."""

import asyncio
import textwrap
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace import Agent, File, RunContext, agent
from headrace.model.sleep import sleep_of
from headrace.testing import TestFleet
from tests.architecture.tree import ROOT
from tests.support.document import shown

DOCS = ROOT / "docs"


def declared(code: str, name: str, **given: object) -> Agent:
    """Return the agent that a block declares, with what a page leaves out imported, or `given`."""
    names: dict[str, Any] = {"asyncio": asyncio, **given}
    exec("from headrace import *\nfrom collections.abc import *\n" + code, names)  # noqa: S102
    found: Agent = names[name]
    return found


def agent_with(lines: str, answer: str, **given: object) -> Agent:
    """Return an agent with a fragment as its body; it answers with the value of `answer`."""
    body = textwrap.indent(f"topic = ctx.prompt\n{lines}\nreturn {answer}", "    ")
    code = f"@agent\nasync def fragment(ctx: RunContext) -> str:\n{body}\n"
    return declared(code, "fragment", **given)


@dataclass
class Order:
    """What a shop reserves."""

    what: str
    total: int


@agent
async def planner(ctx: RunContext) -> str:
    """Plans two lines."""
    return f"{ctx.prompt} in Rome\n{ctx.prompt} in Ulm"


@agent
async def researcher(ctx: RunContext) -> str:
    """Finds something."""
    return f"found {ctx.prompt}"


@agent
async def writer(ctx: RunContext) -> str:
    """Writes it down."""
    if "nothing" in ctx.prompt:
        raise ValueError("no ink")
    return f"report: {ctx.prompt}"


FOUND = "found mills in Rome\nfound mills in Ulm"


async def test_the_page_on_delegation_reports_and_explains_a_missing_report() -> None:
    research = declared(shown(DOCS / "delegation.md", "DelegationFailed"), "research")
    async with TestFleet([research, planner, researcher, writer]) as fleet:
        assert (await fleet.send("research", "mills")).text == f"report: {FOUND}"
        failed = await fleet.send("research", "nothing")
    assert failed.text.startswith("No report: delegation to 'writer' failed: ")


async def test_a_childs_events_are_read_as_the_page_on_delegation_does() -> None:
    fragment = agent_with(shown(DOCS / "delegation.md", "delegate_stream"), "result.text")
    async with TestFleet([fragment, writer]) as fleet:
        assert (await fleet.send("fragment", "mills")).text == "report: mills"


async def test_the_page_on_people_books_what_is_approved_in_words_or_data() -> None:
    trip = declared(shown(DOCS / "people.md", "CHOICE"), "trip")
    async with TestFleet([trip]) as fleet:
        asked = await fleet.send("trip", "Oslo")
        assert (asked.state, asked.text) == ("input-required", "Book Oslo?")
        assert (await asked.reply("no")).text == "Not booked."
        again = await fleet.send("trip", "Oslo")
        assert (await again.reply([{"data": {"approved": True}}])).text == "Booked."


async def test_the_page_on_files_counts_lines() -> None:
    report = declared(shown(DOCS / "files.md", "ctx.content"), "report")
    async with TestFleet([report]) as fleet:
        sent = [File("a.csv", b"a\nb\n", "text/csv"), File("b.txt", b"c\n" * 2, "text/plain")]
        made = await fleet.send("report", "Count.", files=sent)
    assert [file.content for file in made.files] == [b"lines\n4\n"]


async def test_the_page_on_versions_has_an_agent_with_one() -> None:
    shop = declared(shown(DOCS / "agent-versions.md", "pinned"), "shop")
    async with TestFleet([shop]) as fleet:
        assert (await fleet.send("shop", "nails")).text == "Hello from version 2"


async def test_the_page_on_schedules_reminds_after_a_week() -> None:
    reminder = declared(shown(DOCS / "schedules.md", "ctx.sleep"), "reminder")
    async with TestFleet([reminder]) as fleet:
        task = await fleet.start("reminder", "nails")
        await fleet.advance(7 * 24 * 3600 - 60)
        assert (await task.now()).state == "working"
        await fleet.advance(61)
        assert (await task.result()).text == "I will remind you.\nRemember: nails"


async def test_the_page_on_steps_reserves_and_charges_once_though_the_worker_is_killed() -> None:
    done: list[str] = []

    def reserve(what: str) -> Order:
        done.append(f"reserved {what}")
        return Order(what, 7)

    async def charge(total: int) -> str:
        done.append(f"charged {total}")
        return f"R-{total}"

    shop = declared(shown(DOCS / "steps.md", "ctx.step"), "shop", reserve=reserve, charge=charge)
    async with TestFleet([shop]) as fleet:
        task = await fleet.start("shop", "nails", stepped=True)
        async for event in task.events():
            if event.step is not None and event.step.name == "reserve":
                await fleet.kill_worker()
        assert (await task.now()).text == "Paid: R-7"
    assert done == ["reserved nails", "charged 7"]


async def test_the_page_on_waits_delivers_what_is_paid_and_reminds_of_what_is_not() -> None:
    shop = declared(shown(DOCS / "waits.md", "days=30"), "shop", timedelta=timedelta)
    reminder = declared(shown(DOCS / "waits.md", "days=7"), "reminder", timedelta=timedelta)
    async with TestFleet([shop, reminder]) as fleet:
        first, second = await fleet.start("shop", "nails"), await fleet.start("reminder", "nails")
        await first.call_webhook("paid", {"amount": 7})
        assert (await first.result()).text.endswith("\nThanks for 7.")
        async for event in second.events():
            if sleep_of(event.json) is not None:
                break
        await fleet.advance(7 * 24 * 3600)
        await second.call_webhook("paid", {"amount": 8})
        assert (await second.result()).text.endswith("\nRemember to pay.\nThanks for 8.")


async def test_the_page_on_waits_reports_how_another_task_has_ended() -> None:
    reporter = declared(shown(DOCS / "waits.md", "hours=2"), "reporter", timedelta=timedelta)
    async with TestFleet([reporter, planner]) as fleet:
        planned = await fleet.send("planner", "mills")
        report = await fleet.send("reporter", planned.handle.id)
    assert report.text == "It is TASK_STATE_COMPLETED"


async def test_the_page_on_waits_packs_what_is_paid() -> None:
    packer = declared(shown(DOCS / "waits.md", "orders.*"), "packer", timedelta=timedelta)
    async with TestFleet([packer]) as fleet:
        task = await fleet.start("packer", "nails")
        async for event in task.events():
            if sleep_of(event.json) is not None:
                break
        await fleet.publish("orders.paid", {"order": "screws", "total": 9})
        await fleet.publish("orders.paid", {"order": "nails", "total": 7})
        assert (await task.result()).text == "Paid: 7"
