"""The time of a test fleet: what tests let pass, for agents and the deadlines of tasks."""

import asyncio
import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import FunctionType

import pytest

from headrace import Emission, InputRequired, Limits, RunContext, ToolError, agent, tool
from headrace.adapters.questions.answers import expiry, interrupts_in, is_expired
from headrace.clock import now, task_clock
from headrace.testing import TestFleet


@agent()
async def sleeper(ctx: RunContext) -> AsyncIterator[Emission]:
    """Sleep for an hour, in as many parts as asked for."""
    parts = int(ctx.prompt)
    for part in range(parts):
        await asyncio.sleep(3600 / parts)
        yield f"{part} "


async def test_an_agent_that_sleeps_for_an_hour_answers_when_the_hour_has_passed() -> None:
    async with TestFleet([sleeper]) as fleet:
        task = await fleet.start("sleeper", "1")
        await fleet.advance(3500)
        before = await task.now()
        await fleet.advance(100)
        assert (before.state, (await task.result()).text) == ("working", "0 ")


async def test_what_is_due_happens_in_order_each_at_its_own_time() -> None:
    async with TestFleet([sleeper]) as fleet:
        task = await fleet.start("sleeper", "60")
        await fleet.advance(1800)
        half = (await task.now()).text
        await fleet.advance(1800)
        assert half == "".join(f"{part} " for part in range(30))
        assert (await task.result()).text == "".join(f"{part} " for part in range(60))


async def test_time_passes_by_itself_between_two_advances() -> None:
    @agent()
    async def brief(_: RunContext) -> AsyncIterator[Emission]:
        """Take a moment."""
        await asyncio.sleep(0.01)
        yield "done"

    async with TestFleet([brief]) as fleet:
        assert (await fleet.send("brief", "go")).text == "done"
        await fleet.advance(3600)
        assert (await fleet.send("brief", "go")).text == "done"


async def test_timeouts_of_an_agent_and_its_tools_are_reached() -> None:
    @tool(timeout=60)
    async def oracle() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    @agent()
    async def hasty(ctx: RunContext) -> AsyncIterator[Emission]:
        """Wait for ten minutes, then a minute for a tool."""
        try:
            async with asyncio.timeout(600):
                await asyncio.Event().wait()
        except TimeoutError:
            yield "idle "
        try:
            await ctx.call(oracle)
        except ToolError as error:
            yield f"{error}"

    async with TestFleet([hasty]) as fleet:
        task = await fleet.start("hasty", "go")
        await fleet.advance(600)
        assert (await task.now()).text == "idle "
        await fleet.advance(60)
        assert (await task.result()).text == "idle oracle timed out"


async def test_a_user_who_is_silent_ends_the_wait_for_credentials() -> None:
    @agent()
    async def porter(ctx: RunContext) -> AsyncIterator[Emission]:
        """Wait five minutes for a password."""
        try:
            await ctx.auth_required("Password?")
        except TimeoutError:
            yield "closed"

    async with TestFleet([porter]) as fleet:
        task = await fleet.start("porter", "open")
        await fleet.advance(240)
        assert (await task.now()).state == "auth-required"
        await fleet.advance(60)
        assert (await task.result()).text == "closed"


async def test_a_runs_time_limit_ends_it_in_any_attempt() -> None:
    @agent(limits=Limits(timeout=3600))
    async def endless(_: RunContext) -> AsyncIterator[Emission]:
        """Never end."""
        yield "begun"
        await asyncio.Event().wait()

    async with TestFleet([endless]) as fleet:
        task = await fleet.start("endless", "go")
        await fleet.advance(1800)
        await fleet.kill_worker()
        await fleet.advance(1700)
        assert (await task.now()).state == "working"
        await fleet.advance(101)
        ended = await task.result()
    assert (ended.state, ended.status_text) == ("failed", "The run did not end within 3600 s")


async def test_a_run_that_begins_later_has_its_whole_time() -> None:
    @agent(limits=Limits(timeout=60))
    async def steady(ctx: RunContext) -> AsyncIterator[Emission]:
        """Take a moment, in the second attempt."""
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        yield "done"

    async with TestFleet([steady]) as fleet:
        await fleet.advance(3600)
        task = await fleet.start("steady", "go")
        await fleet.advance(30)
        await fleet.kill_worker()
        assert (await task.result()).text == "done"


async def test_a_child_that_is_not_done_in_time_is_ended() -> None:
    @agent()
    async def manager(ctx: RunContext) -> AsyncIterator[Emission]:
        """Give a clerk a minute."""
        try:
            await ctx.delegate("clerk", "count", timeout=60)
        except Exception as error:  # noqa: BLE001 - its text is the answer
            yield f"{error}"

    @agent()
    async def clerk(_: RunContext) -> AsyncIterator[Emission]:
        """Never end."""
        await asyncio.Event().wait()
        yield ""

    async with TestFleet([manager, clerk]) as fleet:
        task = await fleet.start("manager", "go")
        await fleet.advance(59)
        assert (await task.now()).state == "working"
        await fleet.advance(1)
        assert "did not end" in (await task.result()).text


async def test_a_question_expires() -> None:
    @agent()
    async def clerk(ctx: RunContext) -> AsyncIterator[Emission]:
        """Ask a question that is valid for an hour."""
        if ctx.run == 1:
            interrupt = {"id": "q", "reason": "confirmation", "expiresAt": expiry(3600)}
            yield InputRequired("Sure?", interrupts=[interrupt])
            return
        [interrupt] = interrupts_in(await ctx.load_events(), ctx.run)
        yield "expired" if is_expired(interrupt) else "in time"

    async with TestFleet([clerk]) as fleet:
        quick, late = await fleet.send("clerk", "go"), await fleet.send("clerk", "go")
        await fleet.advance(3590)
        assert (await quick.reply("yes")).text == "in time"
        await fleet.advance(20)
        assert (await late.reply("yes")).text == "expired"


async def test_a_stream_that_a_test_reads_step_by_step_can_be_advanced() -> None:
    texts = list[str]()
    async with TestFleet([sleeper]) as fleet:
        async for event in fleet.stream("sleeper", "2"):
            texts += [event.text] if event.text else []
            if event.state == "working" or event.text == "0 ":
                await fleet.advance(1800)
    assert texts == ["0 ", "1 "]


async def test_the_machines_time_is_what_everything_else_sees() -> None:
    loop = asyncio.get_running_loop()
    async with TestFleet([sleeper]) as fleet:
        begun, real = loop.time(), datetime.now(UTC)
        waiting = asyncio.create_task(asyncio.sleep(1800))
        await fleet.advance(3600)
        assert loop.time() - begun < 1800
        assert (now() - real).total_seconds() < 1800
        assert not waiting.done()
        waiting.cancel()
    assert not {"time", "call_at", "call_later"} & vars(loop).keys()
    assert type(task_clock()).__name__ == "TaskClock"


async def test_fleets_beside_each_other_have_times_of_their_own() -> None:
    async with TestFleet([sleeper]) as one, TestFleet([sleeper]) as other:
        first, second = await one.start("sleeper", "1"), await other.start("sleeper", "1")
        await one.advance(3600)
        assert (await first.result()).state == "completed"
        assert (await second.now()).state == "working"


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
async def test_time_does_not_go_back_or_for_ever(seconds: float) -> None:
    async with TestFleet([sleeper]) as fleet:
        with pytest.raises(ValueError, match="can't advance time"):
            await fleet.advance(seconds)


async def test_what_the_fleet_does_for_an_agent_goes_by_the_machines_time() -> None:
    of_fleet = FunctionType(_loop_time.__code__, {**globals(), "__name__": "headrace.log.append"})
    times = list[float]()

    @agent()
    async def clocks(_: RunContext) -> AsyncIterator[Emission]:
        """Compare the times of an agent and of a module of the fleet that it calls."""
        await asyncio.sleep(3600)
        times.extend([_loop_time() - of_fleet()])
        yield "compared"

    async with TestFleet([clocks]) as fleet:
        task = await fleet.start("clocks", "go")
        await fleet.advance(3600)
        await task.result()
    assert [round(seconds) for seconds in times] == [3600]


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def test_an_agent_that_sleeps_without_a_worker_wakes_by_the_fleets_time() -> None:
    @agent()
    async def reminder(ctx: RunContext) -> AsyncIterator[Emission]:
        yield "soon, "
        await ctx.sleep(3600)
        yield "now"

    async with TestFleet([reminder]) as fleet:
        task = await fleet.start("reminder", "x")
        await fleet.advance(1800)
        assert (await task.now()).state == "working"
        await fleet.kill_worker()
        await fleet.advance(1801)
        assert (await task.result()).text == "soon, now"
