"""Agents that fail, for the lines that a worker process then logs."""

import logging
from collections.abc import AsyncIterator

from headrace import Agents, RunContext, agent

_log = logging.getLogger("shop")


@agent(name="failing")
async def failing(_ctx: RunContext) -> AsyncIterator[str]:
    """Log a line, emit many tokens, and fail."""
    _log.info("looking at the shelves")
    for number in range(200):
        yield f"{number} "
    raise ValueError("the shelves\nare empty")


agents = Agents([failing])
