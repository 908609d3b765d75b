"""Agents that kill their worker, or wait until it is frozen."""

import os
import signal
from collections.abc import AsyncIterator

from headrace import Agents, Retry, RunContext, agent
from tests.support.gates import opened


@agent(retry=Retry(attempts=2))
async def killer(ctx: RunContext) -> AsyncIterator[str]:
    """Says a word, and the process is gone."""
    await ctx.emit("last words")
    await ctx.checkpoint({"attempt": ctx.attempt})
    os.kill(os.getpid(), signal.SIGKILL)
    yield "never"


@agent(retry=Retry(attempts=2))
async def waiter(ctx: RunContext) -> AsyncIterator[str]:
    """Waits until the file is there that its message names."""
    yield f"attempt {ctx.attempt}"
    await opened(ctx.prompt)
    yield "opened"


agents = Agents([killer, waiter])
