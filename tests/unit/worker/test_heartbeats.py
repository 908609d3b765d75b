"""Heartbeats of many holds: each hold's in time, and no work for those that are not due."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.jetstream.consumers import IN_PROGRESS, nak
from headrace_worker import blocked_loop, heartbeats
from headrace_worker.blocked_loop import BLOCKED
from headrace_worker.heartbeats import HEARTBEAT, Hold, WorkerLeases
from headrace_worker.holder_requests import Holder
from headrace_worker.timing import Timing
from tests.support.background import running

MANY = 1000


class Wire:
    """A connection that records what was published and subscribed to."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.answers: dict[str, bytes] = {}
        """What was last published on each subject."""
        self.listening: list[str] = []

    async def publish(self, subject: str, payload: bytes) -> None:
        """Record the message."""
        self.published.append(subject)
        self.answers[subject] = payload

    async def listen(self, subject: str, _: object) -> Any:  # noqa: ANN401 - a stand-in
        """Record the subscription until it ends."""
        self.listening.append(subject)

        async def unsubscribe() -> None:
            self.listening.remove(subject)

        return SimpleNamespace(unsubscribe=unsubscribe)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The heartbeats' clock."""
    clock = Clock()
    for module in (heartbeats, blocked_loop):
        monkeypatch.setattr(module, "time", clock)
    return clock


def _leases(wire: Wire) -> WorkerLeases:
    async def call(work: Coroutine[Any, Any, object]) -> None:
        await work

    thread = SimpleNamespace(
        bus=SimpleNamespace(connection=wire, listen=wire.listen),
        call=call,
        call_soon=asyncio.get_running_loop().call_soon,
        spawn=lambda work: work.close(),
    )
    return WorkerLeases(cast("Any", thread), Timing())


async def test_the_time_until_the_connection_is_no_silence_of_the_loop(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire()
    leases = _leases(wire)
    clock.now += 2 * BLOCKED
    await leases.start("holds")
    assert not leases.health.watch()
    clock.now += 2 * BLOCKED
    assert leases.health.watch()
    [warning] = caplog.messages
    assert f"for {2 * BLOCKED:.1f} s" in warning


async def _calls_of_a_tick(leases: WorkerLeases) -> int:
    """Return how many functions one tick calls."""
    calls = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        await leases._look_after()
    finally:
        sys.setprofile(None)
    return calls


def _holder(subject: str) -> Holder:
    return cast("Holder", SimpleNamespace(control=subject))


async def test_a_tick_does_no_work_for_holds_that_are_not_due(clock: Clock) -> None:
    wire = Wire()
    leases = _leases(wire)
    for number in range(MANY):
        leases.add(f"ack.{number}").holder = _holder(f"control.{number}")
    clock.now += 0.1
    await leases._look_after()
    assert (len(wire.published), len(wire.listening)) == (MANY, MANY)
    clock.now += HEARTBEAT / 2
    assert await _calls_of_a_tick(leases) < MANY / 10
    assert len(wire.published) == MANY


async def test_every_hold_has_a_heartbeat_in_each_interval(clock: Clock) -> None:
    wire = Wire()
    leases = _leases(wire)
    for number in range(10):
        leases.add(f"ack.{number}")
        clock.now += 0.05
        await leases._look_after()
    first = len(wire.published)
    clock.now += HEARTBEAT
    await leases._look_after()
    second = wire.published[first:]
    assert first >= 9
    assert sorted(second) == [f"ack.{number}" for number in range(10)]


async def test_a_released_hold_has_no_more_heartbeats_or_answers(clock: Clock) -> None:
    wire = Wire()
    leases = _leases(wire)
    brief, kept, late = (leases.add(name) for name in ("brief", "kept", "late"))
    leases.release(brief)
    kept.holder = _holder("control.kept")
    clock.now += 0.1
    await leases._look_after()
    assert (wire.published, wire.listening) == (["kept", "late"], ["control.kept"])
    # A claim may take longer than a tick.
    late.holder = _holder("control.late")
    leases.release(kept)
    await leases._look_after()
    assert wire.listening == ["control.late"]
    clock.now += HEARTBEAT
    await leases._look_after()
    assert wire.published == ["kept", "late", "late"]


async def test_a_hold_that_is_released_while_it_is_subscribed_has_no_subscription(
    clock: Clock,
) -> None:
    class Slow(Wire):
        async def listen(self, subject: str, receive: object) -> Any:  # noqa: ANN401 - as `Wire`
            leases.release(hold)
            return await super().listen(subject, receive)

    wire = Slow()
    leases = _leases(wire)
    hold = leases.add("ack")
    hold.holder = _holder("control")
    clock.now += 0.1
    await leases._look_after()
    await leases._look_after()
    assert wire.published == ["ack"]
    assert wire.listening == []


async def test_a_hold_that_could_not_be_renewed_is_renewed_again(clock: Clock) -> None:
    class Broken(Wire):
        async def publish(self, subject: str, _: bytes) -> None:
            await super().publish(subject, _)
            if len(self.published) == 1:
                raise OSError("down")

    wire = Broken()
    leases = _leases(wire)
    hold: Hold = leases.add("ack")
    hold.holder = _holder("control")
    clock.now += 0.1
    with pytest.raises(OSError, match="down"):
        await leases._look_after()
    await leases._look_after()
    assert wire.listening == ["control"]
    clock.now += HEARTBEAT
    await leases._look_after()
    assert wire.published == ["ack", "ack"]


async def test_a_watched_run_has_a_long_lease_until_there_is_no_watcher(
    clock: Clock,
) -> None:
    wire, timing = Wire(), Timing()
    leases = _leases(wire)
    known = leases.add("known")
    leases.add("unclaimed")
    known.holder = _holder("control.known")
    clock.now += 0.1
    await leases._look_after()
    number = leases._listed.changes(0, clock.now).number
    leases._listed.changes(number, clock.now)
    unlisted = leases.add("unlisted")
    unlisted.holder = _holder("control.unlisted")
    clock.now += HEARTBEAT
    await leases._look_after()
    assert wire.answers == {
        "known": nak(timing.lease),
        "unclaimed": IN_PROGRESS,
        "unlisted": IN_PROGRESS,
    }
    sent = wire.published.count("known")
    clock.now += HEARTBEAT
    leases._listed.changes(number, clock.now)
    await leases._look_after()
    assert wire.published.count("known") == sent
    clock.now += timing.watched
    await leases._look_after()
    assert wire.answers["known"] == IN_PROGRESS


class CountingLeases(WorkerLeases):
    """Counts how often it looks after its holds."""

    looks = 0

    async def _look_after(self) -> None:
        self.looks += 1
        await super()._look_after()


@asynccontextmanager
async def _kept(wire: Wire) -> AsyncIterator[CountingLeases]:
    """Leases that are kept inside the block, with a tick in each turn of the loop."""
    thread = SimpleNamespace(
        bus=SimpleNamespace(connection=wire), call_soon=asyncio.get_running_loop().call_soon
    )
    leases = CountingLeases(cast("Any", thread), Timing(), tick=0.0)
    async with running(leases._keep()):
        yield leases


async def _turns(number: int, until: Callable[[], object] = lambda: False) -> None:
    for _ in range(number):
        if until():
            return
        await asyncio.sleep(0)


async def test_a_worker_without_holds_has_no_ticks(clock: Clock) -> None:
    async with _kept(Wire()) as leases:
        await _turns(50)
        ticking = leases.looks
        clock.now += 2.0
        await _turns(50)
        idle = leases.looks - ticking
    assert ticking > 20
    assert idle < 5


async def test_holds_with_long_leases_need_no_ticks_until_one_of_them_ends(clock: Clock) -> None:
    wire = Wire()
    async with _kept(wire) as leases:
        hold = leases.add("ack")
        hold.holder = _holder("control")
        clock.now += 0.1
        await _turns(50, until=lambda: wire.listening)
        leases._listed.changes(leases._listed.changes(0, clock.now).number, clock.now)
        clock.now += HEARTBEAT
        await _turns(50, until=lambda: leases._extended)
        leases._listed.changes(leases._listed.changes(0, clock.now).number, clock.now)
        await _turns(50)
        ticking = leases.looks
        clock.now += 1.5
        await _turns(50)
        idle = leases.looks - ticking
        leases.release(hold)
        await _turns(50, until=lambda: not wire.listening)
    assert idle < 5
    assert wire.listening == []


async def test_a_hold_of_an_idle_worker_has_its_heartbeat_and_answers_at_once(
    clock: Clock,
) -> None:
    wire = Wire()
    async with _kept(wire) as leases:
        clock.now += 2.0
        await _turns(50)
        leases.add("ack").holder = _holder("control")
        clock.now += 0.1
        await _turns(50, until=lambda: wire.listening)
    assert (wire.published, wire.listening) == (["ack"], ["control"])


async def test_a_hold_that_comes_while_the_thread_falls_idle_is_seen(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's thread adds it between the last look and the wait."""
    wire = Wire()
    async with _kept(wire) as leases:
        cleared = leases._held.clear

        def come() -> None:
            monkeypatch.setattr(leases._held, "clear", cleared)
            leases.add("ack")
            clock.now += 0.1

        monkeypatch.setattr(leases._held, "clear", come)
        clock.now += 2.0
        await _turns(50, until=lambda: wire.published)
    assert wire.published == ["ack"]
