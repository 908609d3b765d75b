"""When tails are checked: at first, in silence, and at once where something is amiss."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from headrace.log import tail_rule
from headrace.log.tail_rule import TailRule, Tails, TailTiming
from headrace.model.errors import BusUnavailable
from headrace.model.task import TaskKey, mint_task_id
from tests.support.fake_bus import FakeBus

UNIT = 0.02
"""What stands for a second."""


class Log:
    """A watched log and the checks it was part of."""

    def __init__(self, shard: int = 0) -> None:
        self.key = TaskKey("tenant", "agent", mint_task_id(shard))
        self.last_seen: float | None = 0.0
        self.told: list[int] = []
        self.changed = asyncio.Event()

    def tail_is(self, sequence: int) -> None:
        self.told.append(sequence)
        self.changed.set()

    async def until_received(self, times: int) -> None:
        async with asyncio.timeout(60):
            while len(self.told) < times:
                self.changed.clear()
                await self.changed.wait()


class Leader:
    """Answers what the tails are, as slowly as it is told."""

    def __init__(self) -> None:
        self.questions: list[set[TaskKey]] = []
        self.times: list[float] = []
        self.asked = asyncio.Event()
        self.away: set[int] = set()
        self.answers = asyncio.Event()
        self.answers.set()
        self.tail = 7
        self.up_to = 0
        """What the answers know of the stream."""
        self.since: list[int] = []
        """What the questions named as known."""

    async def tails_of(self, _: FakeBus, keys: Iterable[TaskKey], since: int = 0) -> Tails:
        request = set(keys)
        self.since.append(since)
        self.questions.append(request)
        self.times.append(asyncio.get_running_loop().time())
        self.asked.set()
        tail = self.tail
        await self.answers.wait()
        if any(key.shard in self.away for key in request):
            raise BusUnavailable("no leader")
        unchanged = since and since >= tail
        return Tails({} if unchanged else dict.fromkeys(request, tail), self.up_to)


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    leader = Leader()
    monkeypatch.setattr(tail_rule, "tails_of", leader.tails_of)
    return leader


@pytest.fixture
async def bus() -> FakeBus:
    return FakeBus()


@pytest.fixture
def timing() -> TailTiming:
    return timing_of(2 * UNIT)


def timing_of(silence: float) -> TailTiming:
    return TailTiming(silence, max_silence=10 * UNIT, batch=0.001, retry=UNIT)


@pytest.fixture
async def rule(bus: FakeBus, leader: Leader, timing: TailTiming) -> AsyncIterator[TailRule]:
    del leader
    rule = TailRule(bus, timing)
    await rule.start()
    yield rule
    await rule.stop()


async def test_a_silent_log_is_checked_ever_more_rarely(rule: TailRule, leader: Leader) -> None:
    log = Log()
    rule.watch(log, first=0)
    await log.until_received(6)
    gaps = [(b - a) / UNIT for a, b in zip(leader.times, leader.times[1:], strict=False)]
    assert all(gap >= least for gap, least in zip(gaps, [2, 3, 7, 9, 9], strict=True)), gaps


async def test_a_log_whose_messages_are_not_noted_is_scheduled_only_by_its_checks(
    rule: TailRule,
) -> None:
    log = Log()
    log.last_seen = None
    rule.watch(log, first=0)
    await log.until_received(6)
    # One ticket when the log is watched, and one after each check.
    assert next(rule._tickets) == 1 + len(log.told)


@pytest.mark.parametrize("timing", [timing_of(5 * UNIT)])
async def test_logs_that_are_silent_for_long_come_to_share_their_checks(
    rule: TailRule, leader: Leader
) -> None:
    logs = [Log() for _ in range(8)]
    for number, log in enumerate(logs):
        rule.watch(log, first=number * 0.3 * UNIT)
    for log in logs:
        await log.until_received(4)
    # All within half of a silence, so that at most one of the shared times parts them.
    assert max(map(len, leader.questions[-8:])) >= len(logs) / 2


@pytest.mark.parametrize("timing", [timing_of(1.0)])  # Longer than a busy machine keeps still.
async def test_a_log_with_live_messages_is_not_requested(rule: TailRule, leader: Leader) -> None:
    log = Log()
    rule.watch(log, first=0)
    await log.until_received(1)
    for _ in range(30):
        log.last_seen = asyncio.get_running_loop().time()
        await asyncio.sleep(0.05)
    assert len(leader.questions) == 1
    await log.until_received(2)


async def test_silence_counts_from_the_last_message_however_long_it_was_before(
    rule: TailRule, leader: Leader
) -> None:
    log = Log()
    rule.watch(log, first=0)
    await log.until_received(5)
    seen = log.last_seen = asyncio.get_running_loop().time()
    await log.until_received(6)
    gap = leader.times[-1] - seen
    assert gap >= 2 * UNIT, "not before the silence is over"
    assert rule._watched[log].silence == 4 * UNIT, "and the next one is short again"


async def test_a_request_has_that_log_checked_and_no_other(
    bus: FakeBus, rule: TailRule, leader: Leader
) -> None:
    named, other = Log(), Log()
    for log in (named, other):
        rule.watch(log, first=3600)
    await bus.deliver(bus.subjects.recheck(named.key.task))
    await named.until_received(1)
    assert leader.questions == [{named.key}]
    assert other.told == []


async def test_a_disturbance_has_all_logs_checked_together(
    bus: FakeBus, rule: TailRule, leader: Leader
) -> None:
    logs = [Log() for _ in range(20)]
    for log in logs:
        rule.watch(log, first=3600)
        log.last_seen = asyncio.get_running_loop().time()
    bus._notify()
    await asyncio.gather(*(log.until_received(1) for log in logs))
    assert leader.questions == [{log.key for log in logs}]


@pytest.mark.parametrize("timing", [timing_of(3600.0)])
async def test_what_is_requested_while_a_check_is_on_its_way_is_checked_again(
    bus: FakeBus, rule: TailRule, leader: Leader
) -> None:
    log = Log()
    leader.answers.clear()
    rule.watch(log, first=0)
    await asyncio.wait_for(leader.asked.wait(), 60)
    leader.tail = 8  # appended after the leader had looked
    await bus.deliver(bus.subjects.recheck(log.key.task))
    leader.answers.set()
    await log.until_received(2)
    assert log.told == [7, 8]


async def test_a_leader_that_is_away_is_queried_again_and_holds_up_no_other_stream(
    rule: TailRule, leader: Leader
) -> None:
    here, there = Log(shard=0), Log(shard=16)
    leader.away = {16}
    for log in (here, there):
        rule.watch(log, first=0)
    await here.until_received(2)
    assert there.told == []
    leader.away = set()
    await there.until_received(1)


async def test_logs_dropped_in_the_middle_of_a_check_get_no_result(
    rule: TailRule, leader: Leader
) -> None:
    logs = [Log() for _ in range(3)]
    for log in logs:
        rule.watch(log, first=0)

    def forget_the_others(sequence: int) -> None:
        Log.tail_is(logs[0], sequence)
        for log in logs[1:]:
            rule.forget(log)

    logs[0].tail_is = forget_the_others  # type: ignore[method-assign]
    await logs[0].until_received(2)
    assert [log.told for log in logs[1:]] == [[], []]
    assert len(leader.questions[0]) == 3


async def test_a_log_that_has_not_grown_is_queried_from_its_known_end(
    bus: FakeBus, rule: TailRule, leader: Leader
) -> None:
    log = Log()
    leader.up_to = 7
    rule.watch(log, first=0)
    await log.until_received(1)
    while len(leader.since) < 3:
        leader.asked.clear()
        await asyncio.wait_for(leader.asked.wait(), 60)
    assert leader.since[:3] == [0, 7, 7]
    assert log.told == [7]
    leader.tail = 8
    await log.until_received(2)
    assert log.told == [7, 8]
    before = len(leader.since)
    bus._notify()  # After a disturbance, the log itself may be gone.
    await log.until_received(3)
    assert leader.since[before] == 0


@pytest.mark.parametrize("timing", [TailTiming(UNIT, 2 * UNIT, batch=0.001, retry=UNIT, whole=0)])
async def test_a_log_that_has_not_grown_may_be_gone(rule: TailRule, leader: Leader) -> None:
    log = Log()
    leader.up_to = 7
    rule.watch(log, first=0)
    await log.until_received(3)
    assert set(leader.since) == {0}


async def test_a_stopped_rule_checks_nothing_and_listens_no_more(
    bus: FakeBus, leader: Leader, timing: TailTiming
) -> None:
    rule = TailRule(bus, timing)
    await rule.start()
    log = Log()
    leader.answers.clear()
    rule.watch(log, first=0)
    await asyncio.wait_for(leader.asked.wait(), 60)
    await rule.stop()
    leader.answers.set()
    bus._notify()
    await asyncio.sleep(3 * UNIT)
    assert log.told == []
    assert bus.receivers == {}


async def test_a_rule_that_has_stopped_hears_of_no_disturbance(bus: FakeBus) -> None:
    rule = TailRule(bus)
    assert len(bus._disturbed) == 1
    await rule.start()
    await rule.stop()
    assert not bus._disturbed


async def test_a_check_is_forgotten_once_it_is_made(rule: TailRule) -> None:
    log = Log()
    rule.watch(log, first=0)
    await log.until_received(4)
    assert len(rule._checks) <= 1
