"""What the measured stack serves: the demo's counter, and one that waits for its subscribers."""

import asyncio
import time
from collections.abc import AsyncIterator

from headrace import Agents, RunContext, agent
from headrace.demo import counter
from tests.support.agents import asker


@agent()
async def paced(ctx: RunContext) -> AsyncIterator[str]:
    """``N delay_ms hold_ms``: after the hold, ``1 <ns> `` to ``N <ns> ``, each with its time."""
    count, delay, hold = map(int, ctx.prompt.split())
    await asyncio.sleep(hold / 1000)
    for number in range(1, count + 1):
        yield f"{number} {time.time_ns()} "
        if delay:
            await asyncio.sleep(delay / 1000)


agents = Agents([counter, paced, asker])
