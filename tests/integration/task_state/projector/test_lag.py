"""The lag that a range reports, while it is applied and while it is not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from prometheus_client import REGISTRY

from headrace_task_state.projector.follower import OUTPUT_LINGER, RangeFollower
from headrace_task_state.store import Ignored, Progress, Range, TaskChange, TaskRemoval
from headrace_task_state.store_memory import MemoryStore
from tests.integration.task_state.projector.test_follower import short_log
from tests.support.task_states import TaskStates
from tests.support.waiting import eventually

FIRST = Range(0)


class HeldWriter:
    """A memory store's writer that hangs while `opened` is not set."""

    def __init__(self, writer: Any) -> None:  # noqa: ANN401  # any writer
        self._writer = writer
        self.opened = asyncio.Event()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # of the writer
        return getattr(self._writer, name)

    async def apply(
        self, expected: Progress, then: Progress, changes: Sequence[TaskChange | TaskRemoval]
    ) -> Ignored:
        await self.opened.wait()
        ignored: Ignored = await self._writer.apply(expected, then, changes)
        return ignored


def reported(name: str) -> float | None:
    """Return a figure of the first range."""
    return REGISTRY.get_sample_value(name, {"range": FIRST.name})


@asynccontextmanager
async def followed(
    fleet: TaskStates, output_linger: float = OUTPUT_LINGER
) -> AsyncIterator[HeldWriter]:
    """Follow the first range, into a store that accepts what it is given once it is opened."""
    store = MemoryStore(fleet.ranges)
    lease = await store.leases("replica").acquire(FIRST)
    assert lease is not None
    held: Any = HeldWriter(store.writer(lease))

    async def announce(_: object) -> None:
        """Announce nothing."""

    follower = RangeFollower(
        fleet.bus,
        held,
        5.0,
        announce,
        lambda: None,
        silence=30.0,
        output_linger=output_linger,
        lag_interval=0.05,
    )
    following = asyncio.create_task(follower.run())
    try:
        yield held
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_the_lag_grows_while_the_store_hangs_and_ends_with_it(fleet: TaskStates) -> None:
    await fleet.store(short_log())
    async with followed(fleet) as held:
        held.opened.set()
        await eventually(lambda: _is(0), "everything is applied")
        held.opened.clear()
        for shard in (0, 1, 2):
            log = short_log("more", shard)
            await fleet.store(log)
            behind = len(log.entries) * (shard + 1)
            await eventually(partial(_is, behind), f"the lag is {behind}")
        held.opened.set()
        await eventually(lambda: _is(0), "everything is applied")
    assert reported("headrace_lag") is reported("headrace_position") is None


async def _is(lag: int) -> bool:
    return reported("headrace_lag") == lag
