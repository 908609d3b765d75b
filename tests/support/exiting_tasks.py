"""Agents with tasks of their own that exit the process."""

import asyncio
import sys
from pathlib import Path

from headrace import Agents, RunContext, agent


async def leave(word: str) -> None:
    """Exit, as a program does at a wrong argument."""
    if word == "KeyboardInterrupt":
        raise KeyboardInterrupt
    sys.exit(word)


@agent
async def awaiting(ctx: RunContext) -> str:
    """Waits for a task that exits."""
    await asyncio.create_task(leave(ctx.prompt))
    return "stayed"


@agent
async def forgetting(ctx: RunContext) -> str:
    """Lets a task exit while it goes on."""
    leaving = asyncio.create_task(leave(ctx.prompt))
    await asyncio.wait([leaving])
    return "stayed"


@agent
async def patient(ctx: RunContext) -> str:
    """Waits for a file."""
    await ctx.emit("waiting")
    while not Path(ctx.prompt).exists():  # noqa: ASYNC110, ASYNC240  # a file has no event
        await asyncio.sleep(0.02)
    return ", stayed"


agents = Agents([awaiting, forgetting, patient])
