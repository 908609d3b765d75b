"""How many runs a second workers get done whose agents wait, as they do for a model."""

import asyncio
import time
from pathlib import Path

import httpx

from tests.support.plain_a2a import PlainAgent
from tests.support.stack import Stack

_ORDER = "2 1000"
"""Two numbers, a second between them."""
_ROOM = 64
"""Runs that a worker works on at a time: its default."""
_WAITING = 1.25
"""Clients for each run that there is room for, so that some always wait."""


async def runs_per_second(folder: Path, workers: int, rounds: int) -> float:
    """Return the runs/s of `workers` processes, over `rounds` times what they have room for."""
    with Stack(folder, gateways=1, workers=workers, task_states=1) as stack:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(limits=limits) as http:
            agent = PlainAgent(http, stack.gateways[0], "counter")
            return await _rate(agent, round(_ROOM * workers * _WAITING), _ROOM * workers * rounds)


async def _rate(agent: PlainAgent, clients: int, runs: int) -> float:
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            answer = await agent.send(_ORDER)
            assert answer.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer.text

    # Connections are opened before the clock starts.
    await asyncio.gather(*(agent.send("1") for _ in range(clients)))
    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    return runs / (time.perf_counter() - begun)
