"""What the workers serve: agents whose whole answer follows from the message.

The message's text is a count and a pause in milliseconds.
"""

import asyncio
from collections.abc import AsyncIterator

from headrace_worker import Agents, InputRequired, RunContext, agent

STEADY = 1000
"""Attempts: a leg that is hit again and again is still no failure."""

_STRIDE = 7


def answer_to(text: str) -> str:
    """Return what `plain` and `careful` say to `text`, in all."""
    return "".join(f"{n} " for n in range(1, int(text.split(maxsplit=1)[0]) + 1))


@agent(max_attempts=STEADY)
async def plain(ctx: RunContext) -> AsyncIterator[str]:
    """Counts, and begins again in each attempt."""
    count, pause = map(int, ctx.prompt.split())
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause / 1000)


@agent(max_attempts=STEADY)
async def careful(ctx: RunContext) -> None:
    """Counts, and goes on where its last attempt has left a checkpoint."""
    count, pause = map(int, ctx.prompt.split())
    for number in range((ctx.checkpoint_data or 0) + 1, count + 1):
        await ctx.text(f"{number} ")
        if number % _STRIDE == 0:
            await ctx.checkpoint(number)
        await asyncio.sleep(pause / 1000)


@agent(max_attempts=STEADY)
async def asking(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Asks what to count to."""
    if ctx.leg == 1:
        yield InputRequired("How far?")
        return
    async for piece in plain.streaming(ctx):
        yield str(piece)


agents = Agents([plain, careful, asking])
