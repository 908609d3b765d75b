"""Agents that block their worker's event loop until a file exists."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from headrace import Agents, RunContext, agent


@agent()
async def blocking(ctx: RunContext) -> AsyncIterator[str]:
    """Answers a message by saying it again; the first, ``TURNS PATH``, blocks first.

    It says something, gives the loop that many turns, and blocks until the file is there.
    """
    turns, _, path = ctx.prompt.partition(" ")
    yield ctx.prompt
    if ctx.run == 1:
        for _ in range(int(turns)):
            await asyncio.sleep(0)
        while not await _is_there(Path(path)):
            time.sleep(0.02)  # noqa: ASYNC251  # what this is for


async def _is_there(path: Path) -> bool:
    return path.exists()  # noqa: ASYNC240


agents = Agents([blocking])
