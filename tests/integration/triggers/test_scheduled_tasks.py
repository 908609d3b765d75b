"""What firings of schedules begin, by the rules of their schedule."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from headrace.directory import AgentCard, Announcer, Directory
from headrace.jetstream.broker import FleetBroker
from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.answers import TaskAnswers
from headrace.model.schedule import (
    KEPT_FIRINGS,
    MOST_QUEUED,
    Schedule,
    ScheduleFiring,
    ScheduleFirings,
    ScheduleKey,
)
from headrace.model.schedule_machine import DueFiring, FiringCause, name_of
from headrace.model.task import CANCELED, COMPLETED, TaskKey
from headrace.schedules import Schedules
from headrace.tasks.end import end_task
from headrace.webhooks import ANSWERS, Webhooks
from headrace_triggers.delivery import Deliveries
from headrace_triggers.firing import AgentMissing, UndeliverableFiring
from headrace_triggers.scheduled_tasks import ScheduledTasks, TaskBeforeOpen, Tick
from headrace_triggers.settings import TriggersSettings
from tests.architecture.tree import ROOT
from tests.support.triggers import firings
from tests.support.waiting import eventually

KEY = ScheduleKey("default", "ann", "report")


def schedule(**terms: object) -> Schedule:
    stated = {"agent": "shop", "parts": [{"text": "report"}], "every": "1h", **terms}
    return Schedule.model_validate(stated)


async def fired(schedules: Schedules, *outcomes: str) -> list[ScheduleFiring]:
    """Return what the firings have done, once they have these outcomes, in any order."""

    async def look() -> list[ScheduleFiring]:
        found = (await schedules.firings(KEY)).last
        return found if sorted(one.outcome for one in found) == sorted(outcomes) else []

    return await eventually(look, f"the outcomes {outcomes}")


def tick(stored: Schedule, name: str = "1", *, is_manual: bool = False) -> Tick:
    """Return a firing of the schedule, just now. JetStream lets nobody store one but itself."""
    now = datetime.now(UTC)
    cause = FiringCause.OWNER if is_manual else FiringCause.CLOCK
    return Tick(KEY, DueFiring(name, stored, now, cause), now, now + timedelta(hours=1))


def filled(stored: Schedule, due: datetime) -> Tick:
    """Return a firing that is back-filled, just now."""
    return Tick(
        KEY, DueFiring(name_of(stored, due), stored, due, FiringCause.BACK_FILL), datetime.now(UTC)
    )


async def recorded(schedules: Schedules, tick: Tick, outcome: str) -> None:
    """Record what a firing has done."""
    record = tick.recorded(outcome)
    created = tick.schedule.created
    await schedules.record(KEY, lambda firings: firings.of(created).having(record))


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def task_of(firing: ScheduleFiring) -> TaskKey:
    assert firing.task is not None
    return TaskKey(KEY.tenant, "shop", firing.task)


async def complete(bus: Bus, firing: ScheduleFiring) -> None:
    await end_task(bus, task_of(firing), COMPLETED, "worker-test")


async def all_taken(bus: Bus) -> bool:
    info = await bus.js.consumer_info(bus.streams.schedules, "firings")
    return (info.num_ack_pending, info.num_pending) == (0, 0)


@pytest.mark.usefixtures("taking")
async def test_a_schedule_for_one_time_begins_one_task_and_has_ended(
    schedules: Schedules, bus: Bus
) -> None:
    await schedules.put(KEY, schedule(every=None, at=later(1)))
    [one] = await fired(schedules, "began")
    first = await last_entry(bus, task_of(one))
    assert first is not None
    assert first.events[0]["task"]["history"][0]["parts"] == [{"text": "report"}]
    assert first.stamp.owner == "ann"
    assert await Webhooks(bus).get(task_of(one), ANSWERS) is None
    found = await schedules.get(KEY)
    assert found is not None
    assert found.schedule.ended == "it has fired"


@pytest.mark.usefixtures("taking")
async def test_a_schedules_tasks_answer_as_it_declares(schedules: Schedules, bus: Bus) -> None:
    rule = {"subject": "stock.counted", "stream": "STOCK", "what": "artifacts", "mode": "binary"}
    await schedules.put(KEY, schedule(answers=rule))
    await schedules.run_now(KEY, "1")
    [one] = await fired(schedules, "began")
    kept = await Webhooks(bus).get(task_of(one), ANSWERS)
    assert kept is not None
    assert kept.webhook.answers == TaskAnswers.model_validate({**rule, "depth": 1})


@pytest.mark.parametrize("terms", [{"every": "1s"}, {"every": None, "cron": "* * * * * *"}])
@pytest.mark.usefixtures("taking")
async def test_each_firing_of_every_and_cron_begins_a_task(
    schedules: Schedules, bus: Bus, terms: dict[str, Any]
) -> None:
    await schedules.put(KEY, schedule(**terms))

    async def begun(count: int) -> ScheduleFirings | None:
        found = await schedules.firings(KEY)
        return found if [one.outcome for one in found.last].count("began") == count else None

    first = await eventually(lambda: begun(1), "the first firing begins a task")
    await complete(bus, next(one for one in first.last if one.outcome == "began"))
    second = await eventually(lambda: begun(2), "a later firing begins a task, too")
    assert len({one.task for one in second.last if one.outcome == "began"}) == 2
    assert second.next is not None
    await schedules.delete(KEY)


@pytest.mark.usefixtures("taking")
async def test_a_schedule_that_is_run_now_begins_a_task_even_if_it_is_paused(
    schedules: Schedules, bus: Bus
) -> None:
    await schedules.put(KEY, schedule())
    await schedules.pause(KEY)
    await schedules.run_now(KEY, "1")
    await fired(schedules, "began")
    await eventually(lambda: all_taken(bus), "the firing is acknowledged")


@pytest.mark.usefixtures("taking")
async def test_each_time_that_is_back_filled_begins_one_task_however_often(
    schedules: Schedules, bus: Bus
) -> None:
    await schedules.put(KEY, schedule(every=None, cron="0 2 * * *", overlap="skip"))
    await schedules.pause(KEY)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for days in (2, 3, 3):
        assert await schedules.back_fill(KEY, start, start + timedelta(days), "replace") == days
        await eventually(lambda: all_taken(bus), "the firings are acknowledged")
    found = await schedules.firings(KEY)
    times = {one.at: one for one in found.last}
    assert sorted(times) == [f"2026-01-0{day}T02:00:00.000Z" for day in (1, 2, 3)]
    assert {one.outcome for one in found.last} == {"began"}
    assert (found.began, found.next) == (3, None)
    for at, one in times.items():
        entry = await last_entry(bus, task_of(one))
        assert entry is not None
        async for batch in replay(bus, task_of(one), 0, entry.sequence):
            started = batch[0].events[0]["task"]["metadata"]["headrace.trigger"]
            assert started["at"] == at
            break


async def test_what_waits_of_a_back_fill_begins_one_after_another(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(every=None, cron="0 2 * * *"))).schedule
    queueing = stored.model_copy(update={"overlap": "queue", "max_queued": MOST_QUEUED})
    ticks = [filled(queueing, datetime(2026, 1, day, tzinfo=UTC)) for day in (1, 2)]
    await replicas[0].fire(ticks[0])
    [first] = await fired(schedules, "began")
    for _ in range(2):
        with pytest.raises(TaskBeforeOpen):
            await replicas[1].fire(ticks[1])
    await complete(bus, first)
    await replicas[1].fire(ticks[1])
    await fired(schedules, "began", "began")
    # Of what was begun long ago, no record is left.
    await schedules.record(KEY, lambda _: ScheduleFirings())
    await replicas[0].fire(ticks[0])
    assert (await schedules.firings(KEY)).last == []


@pytest.mark.parametrize("time_zone", [None, "Europe/Paris", "Asia/Kolkata"])
@pytest.mark.usefixtures("taking")
async def test_a_time_that_the_clock_has_fired_for_is_not_back_filled(
    schedules: Schedules, bus: Bus, time_zone: str | None
) -> None:
    by_second = schedule(every=None, cron="* * * * * *", time_zone=time_zone, overlap="replace")
    await schedules.put(KEY, by_second)

    async def began() -> list[ScheduleFiring] | None:
        found = [one for one in (await schedules.firings(KEY)).last if one.outcome == "began"]
        return found if len(found) > 1 else None

    by_clock = await eventually(began, "the clock fires")
    await schedules.pause(KEY)
    first, last = (datetime.fromisoformat(by_clock[at].at) for at in (0, -1))
    second = first.replace(microsecond=0)
    number = await schedules.back_fill(KEY, second, last, "replace")
    await eventually(lambda: all_taken(bus), "the firings are acknowledged")
    filled = (await schedules.firings(KEY)).last
    assert number > 1
    assert {one.task for one in by_clock} <= {one.task for one in filled}
    seconds = [one.at[:19] for one in filled if one.outcome == "began"]
    assert len(seconds) == len(set(seconds))


@pytest.mark.parametrize(("waited", "pause"), [(0, 1), (400, 20), (86400, 60)])
def test_a_firing_that_has_waited_long_looks_less_often(waited: float, pause: float) -> None:
    long_ago = replace(tick(schedule()), at=datetime.now(UTC) - timedelta(seconds=waited))
    now = datetime.now(UTC).timestamp()
    assert long_ago.look_again(now) == pytest.approx(pause, rel=0.1)


@pytest.mark.usefixtures("taking")
async def test_a_queued_firing_waits_for_the_task_before(schedules: Schedules, bus: Bus) -> None:
    await schedules.put(KEY, schedule(overlap="queue"))
    await schedules.run_now(KEY, "1")
    [first] = await fired(schedules, "began")
    await schedules.run_now(KEY, "2")

    async def is_delivered_again() -> bool:
        info = await bus.js.consumer_info(bus.streams.schedules, "firings")
        return bool(info.num_redelivered)

    await eventually(is_delivered_again, "the second firing waits")
    assert await fired(schedules, "began") == [first]
    await complete(bus, first)
    both = await fired(schedules, "began", "began")
    assert both[0] == first


async def test_at_most_so_many_firings_wait_and_the_others_are_skipped(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(overlap="queue", max_queued=2))).schedule
    await replicas[0].fire(tick(stored, "1"))
    [first] = await fired(schedules, "began")
    outcomes = await asyncio.gather(
        *(replicas[number % 2].fire(tick(stored, str(number))) for number in range(2, 6)),
        return_exceptions=True,
    )
    assert sorted(repr(one) for one in outcomes) == ["None", "None", *["TaskBeforeOpen()"] * 2]
    found = await schedules.firings(KEY)
    assert {one.reason for one in found.last} == {None, "2 firings wait already"}
    assert (found.skipped, len(found.waiting)) == (2, 2)
    waiting = found.waiting[0]
    with pytest.raises(TaskBeforeOpen):
        await replicas[0].fire(tick(stored, waiting))
    await complete(bus, first)
    await replicas[0].fire(tick(stored, waiting))
    await fired(schedules, "began", "began", "skipped", "skipped")
    skipped = next(one.key for one in found.last if one.outcome == "skipped")
    await replicas[1].fire(tick(stored, skipped))
    assert len((await schedules.firings(KEY)).waiting) == 1


class SuspendedTasks(ScheduledTasks):
    """A replica that is suspended before it records that a firing waits."""

    meanwhile: Callable[[], Awaitable[None]]

    async def _queue(self, tick: Tick, seen: ScheduleFirings) -> None:
        await self.meanwhile()
        await super()._queue(tick, seen)


@pytest.mark.parametrize("further", [0, KEPT_FIRINGS])
async def test_a_firing_that_another_replica_has_begun_meanwhile_does_not_wait(
    schedules: Schedules,
    bus: Bus,
    directory: Directory,
    replicas: list[ScheduledTasks],
    further: int,
) -> None:
    stored = (await schedules.put(KEY, schedule(overlap="queue"))).schedule
    second, *others = [tick(stored, str(number)) for number in range(2, 3 + further)]
    await replicas[0].fire(tick(stored, "1"))

    async def others_fire() -> None:
        for one in (second, *others):
            await complete(bus, (await schedules.firings(KEY)).last[-1])
            await replicas[0].fire(one)

    begins = firings(bus, directory)
    suspended = SuspendedTasks(bus, begins, Deliveries(bus, begins))
    suspended.meanwhile = others_fire
    await suspended.fire(second)
    found = await schedules.firings(KEY)
    assert (found.began, found.waiting) == (2 + further, [])


async def test_a_firing_that_waited_for_a_schedule_that_is_over_waits_no_more(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(overlap="queue"))).schedule
    await replicas[0].fire(tick(stored, "1"))
    with pytest.raises(TaskBeforeOpen):
        await replicas[0].fire(tick(stored, "2"))
    await schedules.end(KEY, stored.version, "its end has passed")
    await replicas[0].fire(tick(stored, "2"))
    assert (await schedules.firings(KEY)).waiting == []


async def fire_without_agent(replica: ScheduledTasks, ticks: list[Tick]) -> None:
    for one in ticks:
        with pytest.raises(AgentMissing):
            await replica.fire(one)


async def test_firings_while_their_agent_is_away_begin_and_count_once_when_it_is_back(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    terms = {"agent": "away", "overlap": "replace", "max_firings": 2 * KEPT_FIRINGS}
    stored = (await schedules.put(KEY, schedule(**terms))).schedule
    ticks = [tick(stored, str(number)) for number in range(KEPT_FIRINGS + 5)]
    await fire_without_agent(replicas[0], ticks)
    again = [replace(one, is_again=True) for one in ticks]
    await fire_without_agent(replicas[1], again)
    assert (await schedules.firings(KEY)).began == len(ticks)
    await Announcer(bus, "worker-2").announce(AgentCard(name="away"))

    async def begin(one: Tick) -> bool:
        try:
            await replicas[0].fire(one)
        except AgentMissing:
            return False
        return True

    for one in again:
        await eventually(partial(begin, one), "the agent is known")
        assert await last_entry(bus, one.firing.task_key) is not None
    found = await schedules.firings(KEY)
    assert (found.began, found.began_in(stored.life), found.beginning) == (len(ticks),) * 2 + (0,)
    assert len(found.last) == KEPT_FIRINGS


async def test_so_many_firings_at_most_begin_at_once_when_their_agent_is_back(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(agent="away", overlap="replace"))).schedule
    ticks = [tick(stored, str(number)) for number in range(MOST_QUEUED)]
    await fire_without_agent(replicas[0], ticks)
    await replicas[1].fire(tick(stored, "one more"))
    found = await schedules.firings(KEY)
    assert (found.began, found.skipped) == (MOST_QUEUED, 1)
    assert found.last[-1].reason == "100 firings are beginning already"


async def test_firings_go_on_after_one_that_was_given_up(
    schedules: Schedules,
    bus: Bus,
    directory: Directory,
    settings: TriggersSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def crash(*_: object) -> None:
        raise RuntimeError("a defect")

    begins, broker = firings(bus, directory), FleetBroker(settings, "test", injects=False)
    ScheduledTasks(bus, begins, Deliveries(bus, begins, most_crashes=1)).subscribe(broker)
    monkeypatch.setattr(begins, "begin", crash)
    await schedules.put(KEY, schedule(overlap="skip"))
    await broker.start()
    await schedules.run_now(KEY, "1")
    [given_up] = await fired(schedules, "refused")
    assert given_up.reason == "schedule/ann/report: RuntimeError('a defect')"
    monkeypatch.undo()
    await schedules.run_now(KEY, "2")
    await fired(schedules, "refused", "began")
    await broker.stop()


@pytest.mark.usefixtures("taking")
async def test_a_firing_waits_for_its_jitter(schedules: Schedules) -> None:
    stored = (await schedules.put(KEY, schedule(every=None, at=later(0), jitter=4.0))).schedule
    [one] = await fired(schedules, "began")
    at = datetime.fromisoformat(one.at)
    jitter = Tick(KEY, DueFiring(one.key, stored, at, FiringCause.CLOCK), at).jitter
    assert jitter > 0
    assert (datetime.now(UTC) - at).total_seconds() >= jitter


async def test_a_clock_that_is_behind_puts_off_no_firing(
    schedules: Schedules, bus: Bus, directory: Directory, settings: TriggersSettings
) -> None:
    begins, broker = firings(bus, directory), FleetBroker(settings, "test", injects=False)
    deliveries = Deliveries(bus, begins)
    ScheduledTasks(bus, begins, deliveries, now=lambda: time.time() - 3600).subscribe(broker)
    await broker.start()
    await schedules.put(KEY, schedule(every=None, at=later(0)))
    await fired(schedules, "began")
    await broker.stop()


async def test_a_firing_that_is_delivered_to_two_replicas_begins_one_task(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    one = tick(stored)
    await asyncio.gather(*(replica.fire(one) for replica in [*replicas, *replicas]))
    [began] = await fired(schedules, "began")
    entry = await last_entry(bus, task_of(began))
    assert entry is not None
    assert entry.generation == 1
    assert (await schedules.firings(KEY)).began == 1


async def test_a_firing_that_another_replica_begins_meanwhile_counts_once(
    schedules: Schedules, replicas: list[ScheduledTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = tick((await schedules.put(KEY, schedule())).schedule)
    read = Schedules.firings

    async def read_before_it_began(self: Schedules, key: ScheduleKey) -> ScheduleFirings:
        before = await read(self, key)
        monkeypatch.undo()
        await replicas[1].fire(one)
        return before

    monkeypatch.setattr(Schedules, "firings", read_before_it_began)
    await replicas[0].fire(one)
    assert (await schedules.firings(KEY)).began == 1


async def test_a_firing_whose_replica_died_before_its_task_began_begins_it_later(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    one = tick(stored)
    await recorded(schedules, one, "beginning")
    # Until then it is a task that has not ended.
    await replicas[0].fire(tick(stored, "2"))
    await fired(schedules, "beginning", "skipped")
    await replicas[1].fire(one)
    await fired(schedules, "began", "skipped")


@pytest.mark.parametrize("over", ["paused", "ended"])
async def test_a_beginning_whose_schedule_is_over_meanwhile_begins_its_task(
    schedules: Schedules, replicas: list[ScheduledTasks], over: str
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    one = tick(stored)
    await recorded(schedules, one, "beginning")
    if over == "paused":
        await schedules.pause(KEY)
    else:
        await schedules.end(KEY, stored.version, "its end has passed")
    await replicas[0].fire(one)
    await fired(schedules, "began")


async def test_a_firing_that_comes_again_after_more_than_are_kept_counts_once(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    for number in range(KEPT_FIRINGS + 1):
        await replicas[0].fire(tick(stored, f"{number}"))
        await complete(bus, (await schedules.firings(KEY)).last[-1])
    before = await schedules.firings(KEY)
    assert before.find("0") is None
    await replicas[1].fire(replace(tick(stored, "0"), is_again=True))
    assert await schedules.firings(KEY) == before


async def test_of_firings_at_once_one_begins_and_the_others_are_skipped(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    ticks = [tick(stored, str(number)) for number in range(5)]
    await asyncio.gather(*(replicas[number % 2].fire(one) for number, one in enumerate(ticks)))
    firings = await fired(schedules, "began", *(["skipped"] * 4))
    began = next(one for one in firings if one.outcome == "began")
    reasons = {one.reason for one in firings if one.outcome == "skipped"}
    assert reasons == {f"task {began.task} has not ended"}
    await complete(bus, began)
    await replicas[0].fire(tick(stored, "6"))
    await fired(schedules, "began", "began", *(["skipped"] * 4))


async def test_a_replacing_firing_cancels_the_task_before(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(overlap="replace"))).schedule
    await replicas[0].fire(tick(stored, "1"))
    [first] = await fired(schedules, "began")
    await replicas[1].fire(tick(stored, "2"))
    await fired(schedules, "began", "began")
    last = await last_entry(bus, task_of(first))
    assert last is not None
    assert last.stamp.state == CANCELED


async def test_a_schedule_ends_after_its_number_of_tasks(
    schedules: Schedules, bus: Bus, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(max_firings=1))).schedule
    await replicas[0].fire(tick(stored, "1"))
    [one] = await fired(schedules, "began")
    found = await schedules.get(KEY)
    assert found is not None
    assert found.schedule.ended == "it has begun 1 tasks"
    await complete(bus, one)
    await replicas[0].fire(tick(stored, "2"))
    assert (await schedules.firings(KEY)).last == [one]


async def test_a_schedule_begins_nothing_after_its_end(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(end="2020-01-01T00:00:00Z"))).schedule
    await replicas[0].fire(tick(stored))
    found = await schedules.get(KEY)
    assert found is not None
    assert found.schedule.ended == "its end has passed"
    assert await schedules.firings(KEY) == ScheduleFirings()


async def test_a_firing_of_a_paused_schedule_is_skipped(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    await schedules.pause(KEY)
    await replicas[0].fire(tick(stored))
    [skipped] = await fired(schedules, "skipped")
    assert skipped.reason == "the schedule is paused"


async def test_a_firing_of_a_deleted_schedule_begins_nothing(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule())).schedule
    await schedules.delete(KEY)
    await replicas[0].fire(tick(stored))
    assert await schedules.firings(KEY) == ScheduleFirings()


async def test_a_firing_whose_schedule_is_deleted_and_stored_again_meanwhile_begins_nothing(
    schedules: Schedules, replicas: list[ScheduledTasks], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tick((await schedules.put(KEY, schedule())).schedule)
    read, stored = Schedules.firings, list[Schedule]()

    async def store_again(self: Schedules, key: ScheduleKey) -> ScheduleFirings:
        before = await read(self, key)
        monkeypatch.undo()
        await schedules.delete(KEY)
        stored.append((await schedules.put(KEY, schedule())).schedule)
        return before

    monkeypatch.setattr(Schedules, "firings", store_again)
    await replicas[0].fire(old)
    assert await schedules.firings(KEY) == ScheduleFirings()
    await replicas[0].fire(tick(stored[0], "2"))
    [began] = await fired(schedules, "began")
    assert began.key == "2"
    # It has begun its task, and says so late.
    await replicas[1].fire(old)
    found = await schedules.firings(KEY)
    assert (found.began, found.last) == (1, [began])


async def test_a_schedule_replaces_what_is_recorded_of_a_deleted_one_of_its_name(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    old = tick((await schedules.put(KEY, schedule())).schedule)
    await schedules.delete(KEY)
    stored = (await schedules.put(KEY, schedule())).schedule
    await recorded(schedules, old, "beginning")
    await replicas[0].fire(tick(stored, "2"))
    [began] = await fired(schedules, "began")
    assert began.key == "2"
    assert (await schedules.firings(KEY)).began == 1


async def test_a_message_of_which_no_task_can_be_made_is_refused(
    schedules: Schedules, replicas: list[ScheduledTasks]
) -> None:
    stored = (await schedules.put(KEY, schedule(parts=[]))).schedule
    with pytest.raises(UndeliverableFiring):
        await replicas[0].fire(tick(stored))
    [refused] = await fired(schedules, "refused")
    assert refused.task is None


def test_jitter_is_the_same_in_each_delivery_and_differs_between_firings() -> None:
    stored = schedule(jitter=60.0)
    delays = [tick(stored, str(number)).jitter for number in range(50)]
    assert delays == [tick(stored, str(number)).jitter for number in range(50)]
    assert len(set(delays)) == 50
    assert 0 <= min(delays) < max(delays) < 60
    assert tick(stored, is_manual=True).jitter == 0


_IN_ANOTHER_PROCESS = """
from tests.integration.triggers.test_scheduled_tasks import schedule, tick
print(tick(schedule(jitter=60.0)).jitter)
"""


def test_another_replica_delays_a_firing_as_much() -> None:
    """A replica that delays it by a time of its own would have it wait anew."""
    other = subprocess.run(
        [sys.executable, "-c", _IN_ANOTHER_PROCESS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(other.stdout) == tick(schedule(jitter=60.0)).jitter
