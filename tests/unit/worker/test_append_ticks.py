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


def joined_for(ticks: AppendTicks, clock: FakeClock, rate: int, seconds: float) -> float:
    """Have 10 runs append `rate` times a second; return the interval of the ticks at the end."""
    runs, end, times = Runs(10), clock.now + seconds, list[float]()
    while clock.now < end or not times:
        clock.now += 1 / rate
        while clock.due and clock.due[0][0] <= clock.now:
            [(when, tick)], clock.due = clock.due, []
            times.append(when)
            tick()
        ticks.join(runs.starts[round(clock.now * rate) % 10])
    [(when, _)] = clock.due
    return round(when - times[-1], 6)


@pytest.mark.parametrize("seconds", [0.2, 3.0], ids=["at the start of the load", "later"])
@pytest.mark.parametrize(
    ("linger", "rate", "interval"),
    [
        pytest.param(0.06, 400, 0.06, id="few"),
        pytest.param(0.06, 800, 0.03, id="twice as often"),
        pytest.param(0.06, 1600, 0.02, id="most often"),
        pytest.param(0.12, 4000, 0.12, id="never while tokens of a run are merged"),
    ],
)
def test_ticks_come_more_often_where_each_has_enough_appends_for_that(
    linger: float, rate: int, interval: float, seconds: float
) -> None:
    clock = FakeClock()
    ticks = AppendTicks(linger, clock)
    assert joined_for(ticks, clock, rate, seconds) == interval


def test_a_few_appends_at_the_same_moment_are_no_high_rate() -> None:
    clock, runs = FakeClock(), Runs(10)
    ticks = AppendTicks(0.06, clock)
    assert not any(ticks.join(start) for start in runs.starts)


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
