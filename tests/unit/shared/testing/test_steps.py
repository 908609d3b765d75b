"""What a step's function asks of the fleet does not change what the agent's own code gets."""

import asyncio

from headrace import Retry, Retryable, RunContext, agent
from headrace.testing import TestFleet

asked: list[str] = []


@agent
async def cook(ctx: RunContext) -> str:
    """Note each question."""
    asked.append(ctx.prompt)
    return f"{ctx.prompt} {len(asked)}"


@agent(retry=Retry(backoff=0.001))
async def waiter(ctx: RunContext) -> str:
    """Ask the cook in a step whose function fails at first, and then again."""
    calls = 0

    async def ask() -> str:
        nonlocal calls
        calls += 1
        text = (await ctx.delegate("cook", "soup")).text
        if calls == 1:
            raise OSError
        return text

    first = await ctx.step("ask", ask, retry=Retry(backoff=0.001))
    if ctx.attempt == 1:
        raise Retryable
    return f"{first}, {(await ctx.delegate('cook', 'soup')).text}"


@agent
async def dormouse(ctx: RunContext) -> None:
    """Sleep in a step."""
    await ctx.step("nap", ctx.sleep, 3600)


async def test_a_step_s_children_are_its_own() -> None:
    asked.clear()
    async with asyncio.timeout(20), TestFleet([waiter, cook]) as fleet:
        result = await fleet.send("waiter", "hi")
    assert (result.state, result.text) == ("completed", "soup 1, soup 2")


async def test_a_step_can_t_end_its_attempt_for_a_sleep() -> None:
    async with asyncio.timeout(20), TestFleet([dormouse]) as fleet:
        result = await fleet.send("dormouse", "hi")
    assert result.state == "failed"
    assert "sleep between steps" in result.text
