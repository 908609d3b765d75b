"""Appends of many runs start together; those of few runs start at once."""

from collections.abc import Callable

import pytest

from headrace_worker.append_ticks import MEMORY, AppendTicks


class FakeClock:
    """A clock that a test moves; it calls what is due."""

    def __init__(self) -> None:
        self.now = 100.003
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> None:
        self.due.append((when, callback))

    def go_to_next_tick(self) -> None:
        [(self.now, tick)], self.due = self.due, []
        tick()


class Runs:
    """Runs that append in turn, and the order in which ticks start them."""

    def __init__(self, number: int) -> None:
        self.started: list[int] = []
        self.starts = [self._start(run) for run in range(number)]

    def _start(self, run: int) -> Callable[[], None]:
        return lambda: self.started.append(run)


def join_until_one_waits(ticks: AppendTicks, runs: Runs) -> int:
    """Return how many appends in turn started at once before one had to wait."""
    return next(turn for turn, start in enumerate(runs.starts * 1000) if ticks.join(start))


def test_appends_of_many_runs_start_at_the_same_tick_in_their_order() -> None:
    clock, runs = FakeClock(), Runs(10)
    ticks = AppendTicks(0.02, clock)
    join_until_one_waits(ticks, runs)
    runs.started.clear()
    joined = [ticks.join(runs.starts[run]) for run in (7, 3, 5)]
    assert (joined, runs.started) == ([True] * 3, [])
    clock.go_to_next_tick()
    assert runs.started[-3:] == [7, 3, 5]
    assert len(runs.started) == 4
    assert clock.due == []


def test_ticks_are_at_multiples_of_the_interval() -> None:
    clock, runs = FakeClock(), Runs(10)
    ticks = AppendTicks(0.02, clock)
    join_until_one_waits(ticks, runs)
    [(when, _)] = clock.due
    assert round(when, 6) == 100.02


@pytest.mark.parametrize(
    ("linger", "appends", "next_tick"),
    [
        pytest.param(0.06, 200, 120.12, id="few"),
        pytest.param(0.06, 400, 120.09, id="twice as often"),
        pytest.param(0.06, 2000, 120.08, id="most often"),
        pytest.param(0.12, 2000, 120.24, id="never while tokens of a run are merged"),
    ],
)
def test_ticks_come_more_often_where_each_has_enough_appends_for_that(
    linger: float, appends: int, next_tick: float
) -> None:
    clock, runs = FakeClock(), Runs(10)
    clock.now = 120.003
    ticks = AppendTicks(linger, clock)
    for start in runs.starts * (appends // 10):
        ticks.join(start)
    clock.go_to_next_tick()
    clock.now += 0.001
    ticks.join(runs.starts[0])
    [(when, _)] = clock.due
    assert round(when, 6) == next_tick


def test_the_appends_of_one_run_never_wait_however_many_they_are() -> None:
    clock, runs = FakeClock(), Runs(1)
    ticks = AppendTicks(0.02, clock)
    assert not any(ticks.join(runs.starts[0]) for _ in range(10_000))


def test_appends_that_would_be_nearly_alone_in_their_tick_do_not_wait() -> None:
    clock, runs = FakeClock(), Runs(3)
    ticks = AppendTicks(0.02, clock)
    waits = []
    for turn in range(300):
        clock.now += 0.02
        waits.append(ticks.join(runs.starts[turn % 3]))
    assert not any(waits)


def test_when_the_rate_falls_appends_start_at_once_again() -> None:
    clock, runs = FakeClock(), Runs(10)
    ticks = AppendTicks(0.02, clock)
    join_until_one_waits(ticks, runs)
    clock.go_to_next_tick()
    clock.now += 2 * MEMORY
    assert not ticks.join(runs.starts[0])


def test_without_an_interval_nothing_waits() -> None:
    clock, runs = FakeClock(), Runs(10)
    ticks = AppendTicks(0.0, clock)
    assert not any(ticks.join(start) for start in runs.starts * 1000)
