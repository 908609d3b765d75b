"""What a measurement costs in processor time, by role: a figure that neighbours disturb less."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from tests.benchmarks.contestants import Contestant, Pids

_IDLE = 0.1
"""Of a core. A stack that has nothing to do takes half of that, one at work many times as much."""

_LOOK = 0.2


def by_role(contestant: Contestant) -> dict[str, float]:
    """Return the seconds that each role's processes have run, in all; 0 without Linux's /proc."""
    return seconds_of(contestant.pids())


def seconds_of(pids: Pids) -> dict[str, float]:
    """Return the seconds that the processes of each role have run, in all."""
    return {role: _seconds(of_role) for role, of_role in pids.items()}


def _seconds(pids: Iterable[int]) -> float:
    return sum(_nanoseconds(stat) for pid in pids for stat in _threads(pid)) / 1e9


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _nanoseconds(stat: Path) -> int:
    try:
        return int(stat.read_text().split()[0])
    except OSError:  # the thread ended while we looked
        return 0


async def settle(contestant: Contestant, timeout: float = 60.0) -> None:
    """Return when the contestant has stopped working (task state may lag behind what clients saw).

    Raises:
        TimeoutError: it worked on for `timeout` seconds.
    """
    async with asyncio.timeout(timeout):
        while await _share(contestant) > _IDLE:
            pass


async def _share(contestant: Contestant) -> float:
    before, start = sum(by_role(contestant).values()), time.perf_counter()
    await asyncio.sleep(_LOOK)
    return (sum(by_role(contestant).values()) - before) / (time.perf_counter() - start)
