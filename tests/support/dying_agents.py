"""Agents that take their worker with them."""

import os
import signal
from collections.abc import AsyncIterator

from headrace_worker import Agents, RunContext, agent


@agent(max_attempts=2)
async def killer(ctx: RunContext) -> AsyncIterator[str]:
    """Says a word, and the process is gone."""
    await ctx.text("last words")
    await ctx.checkpoint({"attempt": ctx.attempt})
    os.kill(os.getpid(), signal.SIGKILL)
    yield "never"


agents = Agents([killer])
