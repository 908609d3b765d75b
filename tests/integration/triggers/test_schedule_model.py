"""Whatever owners do and whatever dies, each due time of a schedule begins exactly one task.

Hypothesis draws what happens around changes of summer time and leap days of five time zones, on a
nats-server whose clock is set there.
"""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.resuming_sizes import SEED, sized
from tests.support.schedule_times import ByCron, ByInterval, Once, Timing
from tests.support.schedule_world import ScheduleWorld
from tests.support.shifted_nats import CAN_SHIFT

PARTS = sized(1, 4)
"""Parts of the examples, for as many processes: an example takes a minute, most of it waiting."""
EXAMPLES, STEPS = sized(2, 6), sized(8, 25)
"""Of a part."""

ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", None]
MOMENTS = [
    datetime.fromisoformat(one)
    for one in (
        "2027-03-14T07:00:00+00:00",  # New York: 02:00 becomes 03:00.
        "2027-03-28T01:00:00+00:00",  # Paris: 02:00 becomes 03:00.
        "2027-04-03T15:00:00+00:00",  # Lord Howe: 02:00 becomes 01:30.
        "2027-10-02T15:30:00+00:00",  # Lord Howe: 02:00 becomes 02:30.
        "2027-10-31T01:00:00+00:00",  # Paris: 03:00 becomes 02:00.
        "2027-11-07T06:00:00+00:00",  # New York: 02:00 becomes 01:00.
        "2028-02-28T18:30:00+00:00",  # Kolkata: 29 February begins.
        "2028-02-29T00:00:00+00:00",  # UTC: the same.
        "2028-02-29T23:00:00+00:00",  # Paris: it ends.
    )
]
NAMES = ["a", "b", "c", "d"]
_log = logging.getLogger(__name__)

counts = {"examples": 0, "steps": 0, "times": 0, "outages": 0}


@st.composite
def timings(draw: st.DrawFn, near: datetime) -> Timing:
    """Draw when a schedule fires, near a moment."""
    match draw(st.sampled_from(["cron", "cron of an hour", "cron of a day", "every", "at"])):
        case "every":
            return ByInterval(draw(st.sampled_from([2, 3, 4])))
        case "at":
            return Once(near + timedelta(seconds=draw(st.integers(-4, 6))))
        case "cron":
            return ByCron(draw(st.sampled_from([2, 3])), None, None, draw(st.sampled_from(ZONES)))
        case "cron of an hour":
            return ByCron(2, draw(st.integers(0, 3)), None, draw(st.sampled_from(ZONES)))
        case _:
            day = draw(st.sampled_from([(2, 28), (2, 29), (3, 1), (near.month, near.day)]))
            return ByCron(3, None, day, draw(st.sampled_from(ZONES)))


_BETWEEN = sized(0.5, 0.8)
"""Seconds between two steps: time for some schedules to be due."""


class Schedules(RuleBasedStateMachine):
    """What owners do with schedules, and what dies meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.world = ScheduleWorld(self.folder)
        self.near = MOMENTS[0]
        self.requests = 0

    def do[T](self, what: Coroutine[object, object, T]) -> T:
        counts["steps"] += 1
        return self.runner.run(what)

    def draw_timing(self, data: st.DataObject) -> Timing:
        return data.draw(timings(self.near))

    @initialize(moment=st.sampled_from(MOMENTS), data=st.data())
    def start(self, moment: datetime, data: st.DataObject) -> None:
        self.near = moment
        self.do(self.world.start(moment))
        for name in NAMES:
            self.do(self.world.put(name, self.draw_timing(data)))

    @rule(
        name=st.sampled_from(NAMES),
        data=st.data(),
        jitter=st.sampled_from([0.0, 0.0, 2.0]),
        most=st.sampled_from([None, None, 2]),
    )
    def store(self, name: str, data: st.DataObject, jitter: float, most: int | None) -> None:
        timing = self.draw_timing(data)
        self.do(self.world.put(name, timing, jitter=jitter, max_firings=most))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data())
    def store_again(self, data: st.DataObject) -> None:
        self.do(self.world.put_again(self.existing(data)))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        name = self.existing(data)
        at = self.do(self.world.now()) + timedelta(seconds=data.draw(st.integers(0, 3)))
        self.do(self.world.put(name, Once(at.replace(microsecond=0))))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data(), to_pause=st.booleans())
    def switch(self, data: st.DataObject, *, to_pause: bool) -> None:
        self.do(self.world.switch(self.existing(data), to_pause=to_pause))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data())
    def run_now(self, data: st.DataObject) -> None:
        self.requests += 1
        self.do(self.world.run_now(self.existing(data), f"{self.requests}"))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data())
    def back_fill(self, data: st.DataObject) -> None:
        self.do(self.world.back_fill(self.existing(data)))

    @precondition(lambda self: self.world.spans)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.do(self.world.delete(self.existing(data)))

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.do(asyncio.sleep(seconds))

    @rule()
    def kill_triggers(self) -> None:
        self.do(self.world.kill_triggers())

    @rule(in_order=st.booleans())
    def restart_nats(self, *, in_order: bool) -> None:
        self.do(self.world.restart_nats(in_order=in_order))

    @precondition(lambda self: self.near < MOMENTS[-1])
    @rule(data=st.data(), in_order=st.booleans())
    def go_on_later(self, data: st.DataObject, *, in_order: bool) -> None:
        self.near = data.draw(st.sampled_from([one for one in MOMENTS if one > self.near]))
        self.do(self.world.restart_nats(self.near, in_order=in_order))

    def existing(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.spans)))

    @invariant()
    def all_are_listed(self) -> None:
        if self.world.spans:
            self.do(self.world.look())
            self.do(asyncio.sleep(_BETWEEN))

    def teardown(self) -> None:
        try:
            self.do(self.world.settle())
            verdict = self.do(self.world.verdict())
            problems = list(verdict.all())
            counts["examples"] += 1
            counts["times"] += verdict.times
            counts["outages"] += len(self.world.away)
            assert not problems, "\n".join(problems)
        finally:
            self.do(self.world.close())
            self.runner.close()
            shutil.rmtree(self.folder)


@pytest.mark.soak
@pytest.mark.skipif(not CAN_SHIFT, reason="no clock of a process can be shifted here")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(900)
def test_each_due_time_begins_one_task_whatever_its_owner_does_and_whatever_dies(part: int) -> None:
    machine = type("Part", (Schedules,), {})
    run_state_machine_as_test(
        seed(SEED + part)(machine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    _log.info("%s", counts)
    assert counts["examples"] >= EXAMPLES
    assert counts["times"] > EXAMPLES
