"""What a run that waits, as for a model or a user, holds in its worker's memory."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator

import headrace_worker
from headrace import Emission, RunContext, agent
from headrace.testing import TestFleet
from headrace_worker import watch

RUNS = 20

BYTES = 7_400
"""Allocated by the worker's own code and for its models per run.

It was 6,900; with what a run has for messages, usage and its span, 7,480. The watch of silent runs
does not count: the slower the machine, the more of the earlier runs are silent by then.
"""

_COUNTED = (f"{headrace_worker.__path__[0]}/*", "*/pydantic/main.py")


@agent()
async def waiter(_: RunContext) -> AsyncIterator[Emission]:
    """Says that it waits, and does."""
    yield "waiting"
    await asyncio.get_running_loop().create_future()


async def _open(fleet: TestFleet) -> None:
    """Begin runs, and return when each has said that it waits."""
    for task in [await fleet.start("waiter", "wait") for _ in range(RUNS)]:
        async for event in task.events():
            if event.text:
                break


async def test_an_idle_run_takes_little_memory() -> None:
    async with TestFleet([waiter]) as fleet:
        await _open(fleet)
        gc.collect()
        tracemalloc.start()
        try:
            await _open(fleet)
            gc.collect()
            taken = tracemalloc.take_snapshot()
        finally:
            tracemalloc.stop()
    counted = taken.filter_traces(
        [tracemalloc.Filter(inclusive=True, filename_pattern=name) for name in _COUNTED]
    ).filter_traces([tracemalloc.Filter(inclusive=False, filename_pattern=watch.__file__)])
    assert sum(one.size for one in counted.statistics("filename")) / RUNS <= BYTES
