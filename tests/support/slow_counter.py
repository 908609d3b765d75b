"""The demo agents, and one whose first attempt runs until it is stopped."""

import asyncio
import itertools
from collections.abc import AsyncIterator

from headrace import Agents, RunContext, agent, demo

COUNT = 60


@agent()
async def slow_counter(ctx: RunContext) -> AsyncIterator[str]:
    """Counts to 60; its first attempt counts on, 20 numbers a second, until somebody stops it."""
    for number in itertools.count(1) if ctx.attempt == 1 else range(1, COUNT + 1):
        yield f"{number} "
        if ctx.attempt == 1:
            await asyncio.sleep(0.05)


agents = Agents([*demo.agents, slow_counter])
slow_counters = Agents([slow_counter])
