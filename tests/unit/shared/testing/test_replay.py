"""Recorded cases are run again, and the difference is shown."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace import Emission, InputRequired, RunContext, ToolResult, agent
from headrace.model import parts
from headrace.model.case import CaseRecorder
from headrace.model.parts import mint_id
from headrace.model.user_message import answer_parts
from headrace.testing import Case, CaseInvalid, FleetTask, TestFleet, load_case


@agent()
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask how many."""
    if ctx.run > 1:
        yield f"Sold: {ctx.prompt} nails."
        return
    call = await ctx.tool_call("stock", {"of": ctx.prompt})
    yield ToolResult(call, 7)
    yield InputRequired("There are 7. How many?")


@agent(name="shop")
async def changed_shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask how many, with another tool."""
    if ctx.run > 1:
        yield f"Sold: {ctx.prompt} nails."
        return
    call = await ctx.tool_call("storage", {"of": ctx.prompt})
    yield ToolResult(call, 7)
    yield InputRequired("There are 7. How many?")


@agent(name="shop")
async def hasty_shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Sell without a question."""
    yield f"Sold: {ctx.prompt}."


@agent(follow_ups="steer")
async def listener(ctx: RunContext) -> AsyncIterator[Emission]:
    """Wait for a second message while at work."""
    yield f"{ctx.prompt} and "
    async for message in ctx.inbox:
        yield f"{message['parts'][0]['text']}."
        return


_ASKED = list[str]()


@agent()
async def approver(ctx: RunContext) -> AsyncIterator[Emission]:
    """Ask under an id of its own, and read which one is answered."""
    if ctx.run == 1:
        name = mint_id("interrupt")
        _ASKED.append(name)
        interrupt = {"id": name, "reason": "input_required", "message": "Really?"}
        yield InputRequired("Really?", interrupts=[interrupt])
        return
    [answer] = ctx.parts
    yield "Done." if parts.interrupt_id(answer) == _ASKED[-1] else "Which one?"


async def recorded(task: FleetTask) -> Case:
    recorder = CaseRecorder()
    async for event in task.events():
        recorder.add(event)
    return Case(task.key.agent, recorder.steps)


async def sold() -> Case:
    async with TestFleet([shop]) as fleet:
        task = await fleet.start("shop", "nails")
        await (await task.result()).reply("3")
        return await recorded(task)


async def test_the_same_agent_does_the_same(tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    path.write_text("\n".join((await sold()).lines()))
    async with TestFleet([shop]) as fleet:
        report = await fleet.replay(load_case(path))
    assert report.differences == []
    assert report.replayed[-2:] == ["text: Sold: 3 nails.", 'state: {"state": "completed"}']


async def test_a_difference_is_shown_as_a_diff_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = await sold()
    with caplog.at_level(logging.WARNING, "headrace.testing.replay"):
        async with TestFleet([changed_shop]) as fleet:
            report = await fleet.replay(case)
    assert [line for line in report.differences if line[0] in "+-"] == [
        "--- recorded",
        "+++ replayed",
        '-tool call: {"arguments": {"of": "nails"}, "name": "stock"}',
        '+tool call: {"arguments": {"of": "nails"}, "name": "storage"}',
    ]
    assert any(str(report) in record.getMessage() for record in caplog.records)


async def test_inputs_that_an_ended_task_cannot_take_are_a_difference() -> None:
    case = await sold()
    async with TestFleet([hasty_shop]) as fleet:
        report = await fleet.replay(case)
    assert '-input: [{"text": "3"}]' in report.differences
    assert "+text: Sold: nails." in report.differences


async def test_a_message_to_a_working_agent_is_sent_while_it_works() -> None:
    async with TestFleet([listener], timeout=5) as fleet:
        task = await fleet.start("listener", "one")
        await task.follow_up("two")
        await task.result()
        case = await recorded(task)
        report = await fleet.replay(case)
    assert {"text": "two."} in case.steps
    assert report.differences == []


async def test_an_answer_names_the_interrupt_that_is_open_now() -> None:
    async with TestFleet([approver]) as fleet:
        task = await fleet.start("approver", "go")
        waiting = await task.result()
        await waiting.reply(answer_parts({waiting.interrupts[0]["id"]: "yes"}))
        case = await recorded(task)
        report = await fleet.replay(case)
    assert {"text": "Done."} in case.steps
    assert report.differences == []


async def test_a_file_without_its_content_cannot_be_sent() -> None:
    missing = {"filename": "a.csv", "bytes": 9, "sha256": "0"}
    case = Case("shop", [{"input": [missing]}], "c.jsonl")
    async with TestFleet([shop]) as fleet:
        with pytest.raises(CaseInvalid, match=r"c\.jsonl:2: .*'a\.csv'.*--max-file-bytes 9"):
            await fleet.replay(case)


def test_a_case_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "case.jsonl"
    path.write_bytes(b"\xff")
    with pytest.raises(CaseInvalid, match=r"case\.jsonl: a case must be UTF-8"):
        load_case(path)
