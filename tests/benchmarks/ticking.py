"""What schedules that all fire every second cost, and how many of their firings begin a task."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import nats

from headrace.client import Client
from tests.benchmarks.contestants import pids_of
from tests.benchmarks.processor_time import seconds_of
from tests.support.stack import Stack

_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Ticks:
    """What came of the firings of a while."""

    schedules: int
    seconds: float
    began: int
    skipped: int
    waiting: int
    """Firings that had not been processed at the end."""
    milliseconds: dict[str, float]
    """Of processor time per task, by role."""

    def lines(self) -> Iterator[str]:
        """Yield what was measured."""
        rate, skipped = self.began / self.seconds, self.skipped / self.seconds
        yield (
            f"{self.schedules} schedules that fire every second, {self.seconds:.0f} s:"
            f" {rate:.0f} tasks/s begun, {skipped:.0f} firings/s skipped, {self.waiting} waiting"
        )
        costs = ", ".join(f"{role} {cost:.2f}" for role, cost in self.milliseconds.items())
        yield f"processor time per task, ms: {costs}"


async def ticks(stack: Stack, schedules: int, seconds: float) -> Ticks:
    """Return what `schedules` that fire every second did in `seconds`, once all have begun."""
    names = [f"tick-{number}" for number in range(schedules)]
    async with Client(stack.gateways[0]) as client:
        ticking = {"agent": "counter", "message": "1", "every": "1s"}
        await _each(names, lambda name: client.schedules.apply({"name": name, **ticking}))
        before = await _each(names, client.schedules.get)
        used, begun = seconds_of(pids_of(stack)), time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - begun
        costs = {role: each - used[role] for role, each in seconds_of(pids_of(stack)).items()}
        waiting = await _waiting(stack.dev()["nats_url"])
        after = await _each(names, client.schedules.get)
        await _each(names, client.schedules.delete)
    began, skipped = (
        sum(one[what] for one in after) - sum(one[what] for one in before)
        for what in ("began", "skipped")
    )
    per_task = {role: cost * 1000 / max(began, 1) for role, cost in costs.items()}
    return Ticks(schedules, took, began, skipped, waiting, per_task)


async def _waiting(url: str) -> int:
    connection = await nats.connect(url)
    try:
        info = await connection.jetstream().consumer_info("SCHEDULES", "firings")
    finally:
        await connection.close()
    return (info.num_pending or 0) + (info.num_ack_pending or 0)


async def _each[Found](names: list[str], do: Callable[[str], Awaitable[Found]]) -> list[Found]:
    """Call `do` with each name, some at a time."""
    limit = asyncio.Semaphore(_AT_A_TIME)

    async def limited(name: str) -> Found:
        async with limit:
            return await do(name)

    return await asyncio.gather(*map(limited, names))
