"""Agents that cause what alerts are for."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from headrace import Agents, RunContext, agent
from tests.support.failing_agents import failing
from tests.support.gates import opened


@agent()
async def stalling(ctx: RunContext) -> AsyncIterator[str]:
    """Blocks its worker's event loop for as many seconds as its message says."""
    time.sleep(float(ctx.prompt))  # noqa: ASYNC251  # what this is for
    yield "done"


@agent()
async def waiting(ctx: RunContext) -> AsyncIterator[str]:
    """Waits until the file is there that its message names."""
    yield "waiting"
    await opened(ctx.prompt)


@agent()
async def talking(ctx: RunContext) -> AsyncIterator[str]:
    """Says a word, 20 times a second, until the file is there that its message names."""
    while not await asyncio.to_thread(Path(ctx.prompt).exists):
        yield "word "
        await asyncio.sleep(0.05)


agents = Agents([failing, stalling, waiting, talking])
