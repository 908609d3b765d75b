"""Replicas share the ranges among themselves, and give back what breaks."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import StateUnavailable
from headrace_task_state.replica import Replica, share_of
from headrace_task_state.store import Lease, LeaseSurvey, Range, all_ranges
from tests.support.waiting import eventually


@given(st.sets(st.text(min_size=1), min_size=1, max_size=9), st.integers(0, 64))
def test_shares_add_up_and_differ_by_one_at_most(names: set[str], ranges: int) -> None:
    replicas = sorted(names)
    shares = [share_of(name, replicas, ranges) for name in replicas]
    assert sum(shares) == ranges
    assert max(shares) - min(shares) <= 1


class FakeLeases:
    """Leases without Redis: what is free, who lives."""

    def __init__(self, ranges: list[Range]) -> None:
        self.free = list(ranges)
        self.replicas = ["me"]
        self.lost: list[Range] = []
        self.released: list[Range] = []
        self.gone = False
        self.trouble = False

    async def renew(self, held: dict[Range, Lease]) -> LeaseSurvey:
        if self.trouble:
            raise StateUnavailable("no Redis")
        lost, self.lost = [place for place in self.lost if place in held], []
        return LeaseSurvey(sorted(self.replicas), lost, list(self.free))

    async def acquire(self, place: Range) -> Lease | None:
        if place not in self.free:
            return None
        self.free.remove(place)
        return Lease(place, f"me.{place.name}", 0)

    async def release(self, leases: list[Lease]) -> None:
        self.released += [lease.range for lease in leases]
        self.free += [lease.range for lease in leases]

    async def leave(self) -> None:
        self.gone = True


class Duty:
    """Counts who works on what."""

    def __init__(self) -> None:
        self.working: set[Range] = set()
        self.breaks = False

    def __call__(self, lease: Lease) -> list[Coroutine[Any, Any, None]]:
        return [self._work(lease.range)]

    async def _work(self, place: Range) -> None:
        self.working.add(place)
        try:
            if self.breaks:
                raise ValueError("broken")
            await asyncio.Event().wait()
        finally:
            self.working.discard(place)


async def running(leases: FakeLeases, duty: Duty) -> tuple[Replica, asyncio.Task[None]]:
    replica = Replica("me", leases, all_ranges(4), duty, interval=0.01)  # type: ignore[arg-type]
    task = asyncio.create_task(replica.run())
    return replica, task


async def until_working(duty: Duty, number: int) -> None:
    async def so_many() -> bool:
        return len(duty.working) == number

    await eventually(so_many, f"{number} ranges are worked on")


async def test_it_takes_what_is_free_and_hands_over_what_is_too_much() -> None:
    leases, duty = FakeLeases(all_ranges(4)), Duty()
    replica, task = await running(leases, duty)
    await until_working(duty, 4)
    leases.replicas = ["me", "you"]
    await until_working(duty, 2)
    assert len(leases.released) == 2
    assert set(replica.held) == duty.working
    leases.replicas = ["me"]
    await until_working(duty, 4)
    task.cancel()
    await replica.stop()
    assert duty.working == set()
    assert len(leases.free) == 4
    assert leases.gone


async def test_a_lost_range_is_dropped_without_giving_it_back() -> None:
    leases, duty = FakeLeases(all_ranges(4)), Duty()
    replica, task = await running(leases, duty)
    await until_working(duty, 4)
    leases.lost = [Range(2)]
    await until_working(duty, 3)
    assert leases.released == []
    assert Range(2) not in replica.held
    task.cancel()
    await replica.stop()


async def test_a_range_whose_work_breaks_is_given_back_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases, duty = FakeLeases(all_ranges(1)), Duty()
    duty.breaks = True
    replica, task = await running(leases, duty)

    async def given_back_twice() -> bool:
        return len(leases.released) >= 2

    await eventually(given_back_twice, "it is given back")
    assert "broke" in caplog.text
    duty.breaks = False
    await until_working(duty, 1)
    task.cancel()
    await replica.stop()


async def test_without_redis_it_goes_on_trying() -> None:
    leases, duty = FakeLeases(all_ranges(4)), Duty()
    leases.trouble = True
    replica, task = await running(leases, duty)
    await asyncio.sleep(0.05)
    leases.trouble = False
    await until_working(duty, 4)
    task.cancel()
    await replica.stop()
