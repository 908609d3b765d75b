"""Schedules that are stored again, changed, moved, paused or deleted around their firings."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.next_firing import start_of_every
from headrace.jetstream.purge import purge
from headrace.model.events import timestamp
from headrace.model.schedule import Schedule, ScheduleFirings, ScheduleKey
from headrace.model.schedule_machine import name_of
from headrace.model.task import COMPLETED, TaskKey
from headrace.schedules import Schedules, StoredSchedule
from headrace.tasks.end import end_task
from tests.support.waiting import eventually

KEY = ScheduleKey("default", "ann", "report")
_NEVER = "0 0 0 1 1 *"
type Take = Callable[[], Awaitable[None]]


def schedule(text: str = "report", **terms: object) -> Schedule:
    stated = {"agent": "shop", "parts": [{"text": text}], "overlap": "replace", **terms}
    return Schedule.model_validate(stated)


def once(seconds: float = 0.0, text: str = "report", **terms: object) -> Schedule:
    """Return a schedule for one time, in `seconds`."""
    return schedule(text, at=timestamp(datetime.now(UTC) + timedelta(seconds=seconds)), **terms)


async def begun(schedules: Schedules, count: int) -> ScheduleFirings:
    """Return the record once so many firings have begun their tasks."""

    async def look() -> ScheduleFirings | None:
        found = await schedules.firings(KEY)
        return found if sum(one.outcome == "began" for one in found.last) >= count else None

    return await eventually(look, f"{count} tasks have begun")


async def ended(schedules: Schedules) -> Schedule:
    """Return the schedule once it has ended."""

    async def look() -> Schedule | None:
        found = await schedules.get(KEY)
        return found.schedule if found is not None and found.schedule.ended else None

    return await eventually(look, "the schedule has ended")


async def as_stored(schedules: Schedules) -> StoredSchedule:
    """Return the schedule as it is stored."""
    stored = await schedules.get(KEY)
    assert stored is not None
    return stored


async def fires(bus: Bus, *keys: ScheduleKey) -> None:
    """Return once all of these schedules have fired, and no firing has had its outcome."""
    every = bus.subjects.firing("*", "*", "*")

    async def look() -> bool:
        info = await bus.js.stream_info(bus.streams.schedules, subjects_filter=every)
        return len(info.state.subjects or {}) == len(keys or [KEY])

    await eventually(look, "the schedules fire")


async def taken(bus: Bus) -> None:
    """Return once no firing waits."""
    every = bus.subjects.firing("*", "*", "*")

    async def look() -> bool:
        info = await bus.js.stream_info(bus.streams.schedules, subjects_filter=every)
        return not info.state.subjects

    await eventually(look, "every firing has had its outcome")


@pytest.mark.usefixtures("taking")
async def test_a_schedule_for_one_time_begins_a_task_each_time_that_it_is_moved(
    schedules: Schedules,
) -> None:
    moved = [once(number, f"no {number}") for number in range(1, 4)]
    for number, each in enumerate(moved, 1):
        assert not (await schedules.put(KEY, each)).schedule.ended
        await begun(schedules, number)
        assert (await ended(schedules)).ended == "it has fired"
    last = (await schedules.firings(KEY)).last
    assert [one.at for one in last] == [one.at for one in moved]
    assert len({one.task for one in last}) == 3


@pytest.mark.usefixtures("taking")
async def test_no_time_is_lost_when_cron_changes_to_fire_more_often(schedules: Schedules) -> None:
    def ats(found: ScheduleFirings) -> list[datetime]:
        return [datetime.fromisoformat(one.at) for one in found.last if one.outcome == "began"]

    changed_at = None
    while changed_at is None:
        await schedules.put(KEY, schedule(cron="*/4 * * * * *"))
        before = (await schedules.firings(KEY)).began
        await begun(schedules, before + 1)
        stored = await schedules.put(KEY, schedule(cron="*/2 * * * * *"))
        # On a slow machine it is stored too late: between the old time and the next new one.
        changed_at = stored.stored if 0 <= stored.stored.second % 4 < 2 else None
    due = changed_at.replace(microsecond=0) + timedelta(seconds=2 - changed_at.second % 2)

    async def look() -> list[datetime]:
        found = ats(await schedules.firings(KEY))
        return found if max(found) > due else []

    found = await eventually(look, "it fires twice after the change")
    assert due in found
    assert len(found) == len(set(found))
    await schedules.delete(KEY)


@pytest.mark.usefixtures("taking")
async def test_a_time_that_was_due_right_before_a_change_begins_one_task(
    schedules: Schedules,
) -> None:
    stored = await schedules.put(KEY, schedule(cron="*/2 * * * * *"))
    changes = 0
    while not 0 < stored.stored.microsecond < 150_000 or stored.stored.second % 2:
        to_wait = 2.02 - datetime.now(UTC).timestamp() % 2
        await asyncio.sleep(to_wait)
        changes += 1
        changed = schedule(f"change {changes}", cron="*/2 * * * * *")
        await schedules.put(KEY, changed)
        again = await schedules.get(KEY)
        assert again is not None
        stored = again
    due = stored.stored.replace(microsecond=0)

    async def look() -> list[datetime]:
        last = (await schedules.firings(KEY)).last
        found = [datetime.fromisoformat(one.at) for one in last if one.outcome == "began"]
        return found if found and max(found) > due else []

    found = await eventually(look, "it fires after the change")
    assert found.count(due) == 1
    await schedules.delete(KEY)


async def replaced(
    bus: Bus, timing: dict[str, str], change: Callable[[Schedules], Awaitable[object]]
) -> tuple[Schedule, datetime]:
    """Change a schedule when it was due and JetStream, which is late for good, has not fired.

    Return it, as it was, and the time.
    """
    schedules = Schedules(bus)
    await schedules.put(KEY, schedule(**timing))
    await purge(bus, bus.streams.schedules, bus.subjects.timer(*KEY.tokens))
    stored = await as_stored(schedules)
    due = start_of_every(stored.stored) + timedelta(seconds=2)
    if "cron" in timing:
        due -= timedelta(seconds=due.second % 2)
    await asyncio.sleep((due - datetime.now(UTC)).total_seconds() + 0.1)
    await change(schedules)
    return stored.schedule, due


async def begins_at(schedules: Schedules, defined: Schedule, due: datetime) -> None:
    """Wait until a schedule has begun its task for a time, as it was defined."""

    async def look() -> bool:
        one = (await schedules.firings(KEY)).find(name_of(defined, due))
        return one is not None and one.outcome == "began"

    await eventually(look, f"the schedule has fired for {due}")


_EVERY, _CRON = {"every": "2s"}, {"cron": "*/2 * * * * *"}


@pytest.mark.usefixtures("taking")
@pytest.mark.parametrize("timing", [_EVERY, _CRON])
async def test_a_schedule_that_is_changed_right_after_it_was_due_fires_for_that(
    schedules: Schedules, bus: Bus, timing: dict[str, str]
) -> None:
    async def change(schedules: Schedules) -> None:
        await schedules.put(KEY, schedule("changed", cron=_NEVER))

    await begins_at(schedules, *await replaced(bus, timing, change))
    assert (await schedules.firings(KEY)).began == 1
    await schedules.delete(KEY)


@pytest.mark.usefixtures("taking")
@pytest.mark.parametrize("timing", [_EVERY, _CRON])
async def test_a_schedule_that_several_change_at_once_fires_for_what_was_due_before(
    schedules: Schedules, bus: Bus, timing: dict[str, str]
) -> None:
    async def change(schedules: Schedules) -> None:
        others = [schedule(f"changed {number}", cron=_NEVER) for number in range(3)]
        await asyncio.gather(*(schedules.put(KEY, other) for other in others))

    await begins_at(schedules, *await replaced(bus, timing, change))
    assert (await schedules.firings(KEY)).began == 1
    await schedules.delete(KEY)


async def test_a_schedule_for_one_time_exists_until_its_firing_has_its_outcome(
    schedules: Schedules, bus: Bus, take: Take
) -> None:
    wanted = once()
    first = await schedules.put(KEY, wanted)
    await fires(bus)
    assert await schedules.get(KEY) == first
    assert await schedules.list(KEY.tenant, KEY.owner) == [first]
    # A program stores it at its start.
    assert await schedules.put(KEY, wanted) == first
    await take()
    await ended(schedules)
    await taken(bus)
    assert (await schedules.firings(KEY)).began == 1


@pytest.mark.usefixtures("taking")
async def test_a_firing_that_waits_for_its_jitter_can_be_shown_and_deleted(
    schedules: Schedules, bus: Bus
) -> None:
    # Of ten, hardly all have short delays.
    keys = [ScheduleKey(KEY.tenant, KEY.owner, f"once{number}") for number in range(10)]
    for key in keys:
        await schedules.put(key, once(jitter=3600.0))
    await fires(bus, *keys)
    listed = {one.key for one in await schedules.list(KEY.tenant, KEY.owner)}
    assert listed == set(keys)
    for key in keys:
        await schedules.delete(key)
    await taken(bus)
    assert await schedules.list(KEY.tenant, KEY.owner) == []


async def test_a_schedule_that_is_deleted_while_its_firing_waits_begins_nothing(
    schedules: Schedules, bus: Bus, take: Take
) -> None:
    await schedules.put(KEY, once())
    await fires(bus)
    await schedules.delete(KEY)
    await schedules.put(KEY, once(1, "another"))
    await take()
    await ended(schedules)
    await taken(bus)
    assert (await schedules.firings(KEY)).began == 1


async def test_a_schedule_that_is_moved_while_its_firing_waits_begins_only_at_its_new_time(
    schedules: Schedules, bus: Bus, take: Take
) -> None:
    await schedules.put(KEY, once())
    await fires(bus)
    moved = once(2, "moved")
    await schedules.put(KEY, moved)
    await take()
    await ended(schedules)
    await taken(bus)
    found = await schedules.firings(KEY)
    assert [one.at for one in found.last] == [moved.at]


@pytest.mark.usefixtures("taking")
async def test_a_schedule_for_one_time_that_has_had_its_task_is_not_restarted_by_storing_it_again(
    schedules: Schedules,
) -> None:
    wanted = once()
    await schedules.put(KEY, wanted)
    over = await ended(schedules)
    assert (await schedules.put(KEY, wanted)).schedule == over


@pytest.mark.usefixtures("taking")
async def test_a_schedule_that_ended_by_its_number_of_tasks_begins_as_many_when_stored_again(
    schedules: Schedules,
) -> None:
    wanted = schedule(cron="* * * * * *", max_firings=2)
    for number in (2, 4):
        assert not (await schedules.put(KEY, wanted)).schedule.ended
        await begun(schedules, number)
        assert (await ended(schedules)).ended == "it has begun 2 tasks"
        assert (await schedules.firings(KEY)).began == number


async def test_a_schedule_for_one_time_that_passed_while_it_was_paused_fires_when_it_is_resumed(
    schedules: Schedules, bus: Bus, take: Take
) -> None:
    wanted = once()
    await schedules.put(KEY, wanted)
    # As due as can be: its firing waits.
    await fires(bus)
    await schedules.pause(KEY)
    await take()
    await taken(bus)
    assert (await schedules.firings(KEY)).last == []
    await schedules.resume(KEY)
    found = await begun(schedules, 1)
    assert [one.at for one in found.last] == [wanted.at]
    await ended(schedules)


async def test_a_timer_whose_deletion_was_cut_off_is_withdrawn_when_it_fires(
    schedules: Schedules, bus: Bus, take: Take
) -> None:
    async def timers() -> object:
        timer = bus.subjects.timer(*KEY.tokens)
        info = await bus.js.stream_info(bus.streams.schedules, subjects_filter=timer)
        return info.state.subjects

    await schedules.put(KEY, schedule(cron="* * * * * *"))
    definition = bus.subjects.schedule(*KEY.tokens)
    await bus.js.purge_stream(bus.streams.schedules, subject=definition)
    assert await timers()
    await take()

    async def is_withdrawn() -> bool:
        return not await timers()

    await eventually(is_withdrawn, "the timer is withdrawn")
    assert await schedules.firings(KEY) == ScheduleFirings()


@pytest.mark.usefixtures("taking")
async def test_a_time_that_was_skipped_can_be_back_filled(schedules: Schedules, bus: Bus) -> None:
    await schedules.put(KEY, schedule(cron="* * * * * *", overlap="skip"))

    async def skipped() -> datetime | None:
        last = (await schedules.firings(KEY)).last
        times = [datetime.fromisoformat(one.at) for one in last if one.outcome == "skipped"]
        return times[0] if times else None

    due = await eventually(skipped, "a firing is skipped")
    await schedules.pause(KEY)
    [first] = [one for one in (await schedules.firings(KEY)).last if one.outcome == "began"]
    await end_task(bus, TaskKey(KEY.tenant, "shop", first.task or ""), COMPLETED, "worker-test")
    assert await schedules.back_fill(KEY, due, due, "skip") == 1
    found = await begun(schedules, 2)
    assert due in {datetime.fromisoformat(one.at) for one in found.last if one.outcome == "began"}
