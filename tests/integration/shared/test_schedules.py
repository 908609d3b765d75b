"""Schedules on JetStream's own message schedules, on one node and on three."""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError, ServiceUnavailableError

from headrace.jetstream.api import MessageToStore
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import SCHEDULE_NEXT
from headrace.jetstream.message_schedules import ExpressionRefused, TimeZoneRefused
from headrace.jetstream.next_firing import next_of_cron
from headrace.jetstream.purge import purge
from headrace.model.schedule import (
    MOST_QUEUED,
    Schedule,
    ScheduleFiring,
    ScheduleFirings,
    ScheduleKey,
)
from headrace.model.schedule_machine import ScheduleOver
from headrace.model.subjects import encode_token
from headrace.schedules import (
    BackFillRefused,
    Schedules,
    ScheduleUnknown,
    StoredSchedule,
    TooManySchedules,
)
from tests.support.resuming_sizes import SEED

_TIMEOUT = 60.0
_FIELDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def schedule(text: str = "hi", **terms: object) -> Schedule:
    return Schedule.model_validate({"agent": "echo", "parts": [{"text": text}], **terms})


@pytest.fixture
def schedules(bus: Bus) -> Schedules:
    return Schedules(bus)


@pytest.fixture
def key() -> ScheduleKey:
    """A schedule of an owner of its own."""
    return ScheduleKey("default", f"owner{secrets.token_hex(4)}", "report")


async def fired(bus: Bus, key: ScheduleKey, count: int = 1) -> list[Msg]:
    """Return the first `count` firings of the schedule, in order."""
    name = f"test-{key.owner}"
    subject = bus.subjects.firing(*key.tokens)
    async with asyncio.timeout(_TIMEOUT):
        subscription = await bus.js.pull_subscribe(subject, name, bus.streams.schedules)
        found = list[Msg]()
        while len(found) < count:
            # Until the consumer has a leader nobody answers.
            with suppress(ServiceUnavailableError):
                [msg] = await subscription.fetch(1, timeout=_TIMEOUT)
                await msg.ack_sync(timeout=_TIMEOUT)
                found.append(msg)
        await subscription.unsubscribe()
        await bus.js.delete_consumer(bus.streams.schedules, name)
    return found


async def waiting(bus: Bus, key: ScheduleKey) -> int:
    """Return how many firings of the schedule wait."""
    try:
        subject = bus.subjects.firing(*key.tokens)
        state = (await bus.js.stream_info(bus.streams.schedules, subjects_filter=subject)).state
    except NotFoundError:
        return 0
    return (state.subjects or {}).get(subject, 0)


async def test_a_schedule_fires_with_a_copy_of_its_definition_and_its_next_time(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    wanted = schedule(every="1s")
    await schedules.put(key, wanted)
    one, two = await fired(bus, key, 2)
    copies = [Schedule.decode("", msg.data) for msg in (one, two)]
    assert copies[0].is_defined_as(wanted)
    assert copies[0] == copies[1]
    next_times = [datetime.fromisoformat((msg.headers or {})[SCHEDULE_NEXT]) for msg in (one, two)]
    assert next_times[0] < next_times[1]
    await schedules.delete(key)


async def test_a_schedule_for_one_time_fires_once_and_is_kept_as_ended(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    wanted = schedule(at="2020-01-01T00:00:00Z")
    stored = await schedules.put(key, wanted)
    [msg] = await fired(bus, key)
    assert (msg.headers or {})[SCHEDULE_NEXT] == "purge"
    assert await schedules.get(key) == stored
    await schedules.end(key, stored.schedule.version, "it has fired")
    found = await schedules.get(key)
    assert found is not None
    assert found.schedule.ended == "it has fired"
    with pytest.raises(ScheduleOver, match="it has fired"):
        await schedules.resume(key)
    # Its time has had its task.
    assert await schedules.put(key, wanted) == found
    # With another time it starts anew; its dead letters from before are its own.
    again = await schedules.put(key, schedule(at="2021-01-01T00:00:00Z"))
    assert again.schedule.created == found.schedule.created
    await fired(bus, key)


@pytest.mark.parametrize("time_zone", [None, "Asia/Tokyo"])
async def test_cron_fires_in_its_time_zone(
    bus: Bus, schedules: Schedules, key: ScheduleKey, time_zone: str | None
) -> None:
    await schedules.put(key, schedule(cron="* * * * * *", time_zone=time_zone))
    [msg] = await fired(bus, key)
    offset = datetime.fromisoformat((msg.headers or {})[SCHEDULE_NEXT]).utcoffset()
    assert offset == (timedelta(hours=9) if time_zone else timedelta())
    await schedules.delete(key)


async def test_the_next_times_are_those_of_jetstream(bus: Bus, schedules: Schedules) -> None:
    draws, stated, found = random.Random(SEED), dict[str, datetime](), dict[str, datetime | None]()
    while len(found) < 30:  # On a slow machine some are stored after they were due.
        due = datetime.now(UTC) + timedelta(seconds=15)
        owner, in_time = f"owner{secrets.token_hex(4)}", dict[str, Schedule]()
        for number in range(30):
            time_zone = draws.choice([None, "Europe/Paris", "Asia/Kathmandu", "America/New_York"])
            cron = drawn_cron(draws, due.astimezone(ZoneInfo(time_zone or "UTC")))
            key = ScheduleKey("default", owner, str(number))
            one = schedule(cron=cron, time_zone=time_zone)
            await schedules.put(key, one)
            if datetime.now(UTC) > due - timedelta(seconds=2):
                await schedules.delete(key)
                break
            in_time[bus.subjects.firing(*key.tokens)] = one
        for msg in await fired(bus, ScheduleKey("default", owner, "*"), len(in_time)):
            if msg.subject not in in_time:  # It was stored too late.
                continue
            one, at = in_time[msg.subject], msg.metadata.timestamp
            what = f"{one.expression} in {one.time_zone} after {at}"
            stated[what] = datetime.fromisoformat((msg.headers or {})[SCHEDULE_NEXT])
            found[what] = next_of_cron(one.expression, one.time_zone, at)
        for one_stored in await schedules.list("default", owner):
            await schedules.delete(one_stored.key)
    assert found == stated


def drawn_cron(draws: random.Random, due: datetime) -> str:
    """Return a cron expression of six fields that is due at `due`, and seldom else."""
    values = (due.second, due.minute, due.hour, due.day, due.month, due.isoweekday() % 7)
    return " ".join(
        drawn_field(draws, value, *bounds) for value, bounds in zip(values, _FIELDS, strict=True)
    )


def drawn_field(draws: random.Random, value: int, low: int, high: int) -> str:
    """Return a field of cron whose numbers include `value`."""
    step = draws.randint(1, high - low)
    start = draws.choice(range(low + (value - low) % step, value + 1, step))
    end = draws.randint(value, high)
    forms = ["*", f"{value}", f"{value},{draws.randint(low, high)}", f"{start}-{end}/{step}"]
    return draws.choice([*forms, f"{start}/{step}", f"{start}-{end}", f"{end},{start}-{value}"])


@pytest.mark.parametrize(
    ("terms", "error"),
    [
        ({"every": "0.5s"}, ExpressionRefused),
        ({"every": "1d"}, ExpressionRefused),
        ({"at": "tomorrow"}, ExpressionRefused),
        ({"cron": "0 9 31 2 *"}, ExpressionRefused),
        ({"cron": "nonsense"}, ExpressionRefused),
        ({"cron": "0 9 * * *", "time_zone": "Mars/Base"}, TimeZoneRefused),
    ],
)
async def test_what_jetstream_refuses_is_not_stored(
    schedules: Schedules, key: ScheduleKey, terms: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        await schedules.put(key, schedule(**terms))
    assert await schedules.get(key) is None


async def test_storing_the_same_again_changes_nothing_and_another_one_replaces_it(
    schedules: Schedules, key: ScheduleKey
) -> None:
    first = await schedules.put(key, schedule(every="1h"))
    again = await schedules.put(key, schedule(every="1h"))
    assert again.sequence == first.sequence
    await schedules.pause(key)
    changed = await schedules.put(key, schedule(every="2h"))
    assert changed.sequence > first.sequence
    assert changed.schedule.paused
    assert changed.schedule.created == first.schedule.created
    [listed] = await schedules.list(key.tenant, key.owner)
    assert listed == changed
    await schedules.delete(key)
    assert await schedules.list(key.tenant, key.owner) == []


async def test_a_paused_schedule_fires_no_more_until_it_is_resumed(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    await schedules.put(key, schedule(every="1s"))
    await fired(bus, key)
    assert (await schedules.pause(key)).paused
    before = await waiting(bus, key)
    other = ScheduleKey(key.tenant, key.owner, "other")
    await schedules.put(other, schedule(every="1s"))
    await fired(bus, other, 3)
    assert await waiting(bus, key) == before
    assert not (await schedules.resume(key)).paused
    await fired(bus, key, before + 1)
    await schedules.delete(key)
    await schedules.delete(other)


async def test_running_it_now_fires_once_per_request_even_if_it_is_paused(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    await schedules.put(key, schedule(every="1h"))
    await schedules.pause(key)
    for request in ("a", "a", "b"):
        await schedules.run_now(key, request)
    assert await waiting(bus, key) == 2
    await schedules.delete(key)
    assert await waiting(bus, key) == 0
    with pytest.raises(ScheduleUnknown):
        await schedules.run_now(key, "c")


async def test_a_request_to_run_a_schedule_is_no_repetition_of_one_to_a_deleted_schedule(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    for _ in range(2):
        await schedules.put(key, schedule(every="1h"))
        await schedules.run_now(key, "a")
        assert await waiting(bus, key) == 1
        await schedules.delete(key)


async def test_what_does_not_exist_or_has_ended_is_named_as_its_owner_names_it(
    schedules: Schedules, key: ScheduleKey
) -> None:
    odd = ScheduleKey(key.tenant, key.owner, encode_token("été 1"))
    with pytest.raises(ScheduleUnknown, match="schedule 'été 1' does not exist"):
        await schedules.pause(odd)
    stored = await schedules.put(odd, schedule(every="1h"))
    await schedules.end(odd, stored.schedule.version, "its end has passed")
    with pytest.raises(ScheduleOver, match="schedule 'été 1' has ended: its end has passed"):
        await schedules.pause(odd)
    await schedules.delete(odd)


async def test_only_so_many_times_of_cron_are_back_filled(
    bus: Bus, schedules: Schedules, key: ScheduleKey
) -> None:
    start, most = datetime(2026, 1, 1, tzinfo=UTC), timedelta(minutes=MOST_QUEUED - 1)
    await schedules.put(key, schedule(every=None, cron="* * * * *", end="2026-01-01T03:00:00Z"))
    await schedules.pause(key)
    assert await schedules.back_fill(key, start, start + most, "queue") == MOST_QUEUED
    assert await schedules.back_fill(key, start + 2 * most, start + 3 * most, "queue") == 0
    assert await waiting(bus, key) == MOST_QUEUED
    with pytest.raises(BackFillRefused, match="at most 100 times"):
        await schedules.back_fill(key, start, start + most + timedelta(minutes=1), "queue")
    await schedules.put(key, schedule(every="1h"))
    with pytest.raises(BackFillRefused, match="only schedules by cron"):
        await schedules.back_fill(key, start, start, "queue")
    await schedules.delete(key)
    with pytest.raises(ScheduleUnknown):
        await schedules.back_fill(key, start, start, "queue")


async def test_an_end_does_not_touch_a_definition_that_is_newer(
    schedules: Schedules, key: ScheduleKey
) -> None:
    old = await schedules.put(key, schedule(every="1h"))
    await schedules.put(key, schedule(every="2h"))
    await schedules.end(key, old.schedule.version, "its time is over")
    found = await schedules.get(key)
    assert found is not None
    assert not found.schedule.ended
    await schedules.delete(key)


async def test_records_of_several_firings_at_once_are_all_kept(
    schedules: Schedules, key: ScheduleKey
) -> None:
    at = datetime.now(UTC).isoformat()

    async def record(name: str) -> ScheduleFirings:
        firing = ScheduleFiring(key=name, at=at, outcome="beginning", task=f"t-{name}")
        return await schedules.record(key, lambda firings: firings.having(firing))

    await asyncio.gather(*map(record, "abcd"))
    firings = await schedules.firings(key)
    assert (firings.began, {one.key for one in firings.last}) == (4, set("abcd"))
    await schedules.delete(key)
    assert await schedules.firings(key) == ScheduleFirings()


type Purge = Callable[..., Awaitable[None]]


def interrupted(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[Purge, str], Awaitable[None]]
) -> None:
    """Have the next purge of a schedule's subject done by `first`, with what others do then."""
    doing = [first]

    async def purging(bus: Bus, stream: str, subject: str, before: int = 0) -> None:
        async def original() -> None:
            await purge(bus, stream, subject, before)

        await (doing.pop()(original, subject) if doing else original())

    monkeypatch.setattr("headrace.schedules.purge", purging)


async def test_a_schedule_that_is_stored_while_another_process_deletes_it_fires(
    bus: Bus, schedules: Schedules, key: ScheduleKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store_then(original: Purge, subject: str) -> None:
        assert subject == bus.subjects.schedule(*key.tokens)
        await original()
        await Schedules(bus).put(key, schedule("stored again", every="1s"))

    await schedules.put(key, schedule(every="1h"))
    interrupted(monkeypatch, store_then)
    await schedules.delete(key)
    found = await schedules.get(key)
    assert found is not None
    [firing] = await fired(bus, key)
    assert Schedule.decode("", firing.data) == found.schedule
    await schedules.delete(key)


async def test_what_a_schedule_has_begun_stays_recorded_while_another_process_stores_it_too(
    schedules: Schedules, key: ScheduleKey, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, at = schedule(every="1h"), datetime.now(UTC).isoformat()
    firing = ScheduleFiring(key="1", at=at, outcome="beginning", task="t-1")

    async def store_first(original: Purge, subject: str) -> None:
        assert subject == bus.subjects.fired(*key.tokens)
        await Schedules(bus).put(key, wanted)
        await schedules.record(key, lambda firings: firings.having(firing))
        await original()

    interrupted(monkeypatch, store_first)
    stored = await schedules.put(key, wanted)
    assert stored == await schedules.get(key)
    assert (await schedules.firings(key)).last == [firing]
    await schedules.delete(key)


async def test_an_owner_has_a_maximum_of_schedules(bus: Bus, key: ScheduleKey) -> None:
    schedules = Schedules(bus, most_per_owner=1)
    await schedules.put(key, schedule(every="1h"))
    other = ScheduleKey(key.tenant, key.owner, "other")
    with pytest.raises(TooManySchedules, match="at most 1 schedules"):
        await schedules.put(other, schedule(every="1h"))
    await schedules.put(key, schedule(every="2h"))
    await schedules.delete(key)


class OvertakenSchedules(Schedules):
    """Schedules whose first definition is over the limit, and replaced, once it is stored."""

    async def _store(
        self, key: ScheduleKey, schedule: Schedule, after: int, *behind: MessageToStore
    ) -> StoredSchedule:
        stored = await super()._store(key, schedule, after, *behind)
        others = Schedules(self._bus)
        await others.put(ScheduleKey(key.tenant, key.owner, "other"), schedule)
        await others.put(key, schedule.model_copy(update={"every": "2h"}))
        await others.run_now(key, "now")
        return stored


async def test_a_schedule_over_the_limit_stays_if_another_request_has_replaced_it(
    bus: Bus, key: ScheduleKey
) -> None:
    with pytest.raises(TooManySchedules):
        await OvertakenSchedules(bus, most_per_owner=1).put(key, schedule(every="1h"))
    kept = await Schedules(bus).get(key)
    assert kept is not None
    assert kept.schedule.every == "2h"
    # The requested one, and that of the definition that was replaced.
    assert await waiting(bus, key) == 2
    for name in (key.name, "other"):
        await Schedules(bus).delete(ScheduleKey(key.tenant, key.owner, name))


async def test_no_more_schedules_than_allowed_are_made_at_the_same_time(
    bus: Bus, key: ScheduleKey
) -> None:
    schedules, hourly = Schedules(bus, most_per_owner=3), schedule(every="1h")
    keys = [ScheduleKey(key.tenant, key.owner, f"s{number}") for number in range(20)]
    putting = (schedules.put(one, hourly) for one in keys)
    made = await asyncio.gather(*putting, return_exceptions=True)
    refused = [one for one in made if isinstance(one, BaseException)]
    assert {type(one) for one in refused} == {TooManySchedules}
    kept = await schedules.list(key.tenant, key.owner)
    assert len(kept) == len(keys) - len(refused) <= 3
    for one in keys:
        await schedules.delete(one)
