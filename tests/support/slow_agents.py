"""Slow agents: they echo their input after a while, or ask for a secret first."""

import asyncio
from collections.abc import AsyncIterator

from headrace import Agents, RunContext, agent


@agent(name="slow_repeater")
async def slow_repeater(ctx: RunContext) -> AsyncIterator[str]:
    """Says the message again after a while; its first attempt at the first lasts for ever."""
    if ctx.run == 1:
        await asyncio.sleep(600 if ctx.attempt == 1 else 2)
    yield ctx.prompt


@agent()
async def guarded(ctx: RunContext) -> AsyncIterator[str]:
    """Wants to know a secret first."""
    answer = await ctx.auth_required("A token, please")
    yield f"got {answer['parts'][0]['text']}"


agents = Agents([slow_repeater, guarded])
