"""What comes of an append: stored once, or one clear error."""

import asyncio

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.client import ReceivedMessage, StreamPosition
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import EXPECTED
from headrace.jetstream.streams import apply
from headrace.log import AppendResult, LogWriter, TailRule, last_entry
from headrace.log.append import HEADER_ROOM
from headrace.model.entry import Stamp
from headrace.model.errors import EventTooLarge, Fenced, LogFull, LogLost
from headrace.model.task import WORKING
from headrace.settings import BusSettings
from tests.integration.shared.conftest import Connect
from tests.support.live_copies import LiveCopies
from tests.support.task_log import TaskLog, following, generations, texts

ROUNDS = 100


async def test_what_is_appended_is_read_as_it_was_written(log: TaskLog) -> None:
    appended = await log.append("one", "two", "three")
    assert appended.generation == 4
    entries = await log.read()
    assert [entry.sequence for entry in entries][-1] == appended.sequence
    assert generations(entries) == [1, 2, 3, 4]
    assert texts(entries) == ["one", "two", "three"]
    assert entries[0].stamp.owner == "owner"


async def test_a_refused_append_is_never_seen_live(bus: Bus, log: TaskLog) -> None:
    live = LiveCopies()
    await bus.subscribe(bus.subjects.live(log.key), live.take)
    stored = []
    for _ in range(ROUNDS):
        stale = {**log.stamp().headers(), EXPECTED: str(log.writer.sequence - 1)}
        appending = asyncio.gather(
            bus.request(log.subject, b'{"stale":1}', 60.0, stale),
            log.append("accepted"),
            bus.request(log.subject, b'{"stale":2}', 60.0, stale),
        )
        refused, appended, refused_too = await appending
        assert b"wrong last sequence" in refused.data
        assert b"wrong last sequence" in refused_too.data
        stored.append(appended.sequence)
    await live.until(stored[-1])
    assert live.sequences == stored


async def test_the_place_of_a_live_message_is_in_the_last_of_its_headers(
    bus: Bus, log: TaskLog
) -> None:
    arrived = asyncio.Queue[Msg]()
    subscription = await bus.listen(bus.subjects.live(log.key), arrived.put_nowait)
    before = log.writer.sequence
    appended = await log.append("one")
    live = await asyncio.wait_for(arrived.get(), 60)
    await bus.unsubscribe(subscription)
    assert isinstance(live, ReceivedMessage)
    place = StreamPosition.read(live.block)
    assert place is not None
    assert (place.subject, place.sequence, place.previous) == (
        log.subject,
        appended.sequence,
        before,
    )


@pytest.mark.parametrize("writers", [2, 5])
async def test_of_writers_that_race_exactly_one_wins_each_generation(
    connect: Connect, log: TaskLog, writers: int
) -> None:
    buses = [await connect() for _ in range(writers)]
    winners = []
    for _ in range(ROUNDS // writers):
        last = await last_entry(log.bus, log.key)
        assert last is not None
        racers = [log.behind(last, bus=bus, writer=f"racer {n}") for n, bus in enumerate(buses)]
        results = await asyncio.gather(
            *(racer.append(racer.name) for racer in racers), return_exceptions=True
        )
        fenced = [isinstance(result, Fenced) for result in results]
        assert fenced.count(False) == 1, results
        winners.append(racers[fenced.index(False)].name)
    entries = await log.read()
    assert texts(entries) == winners
    assert generations(entries) == list(range(1, len(winners) + 2))


async def test_who_lost_the_hold_cannot_append_again(log: TaskLog) -> None:
    last = await last_entry(log.bus, log.key)
    assert last is not None
    await log.behind(last, writer="newcomer").append("mine now")
    for _ in range(2):
        with pytest.raises(Fenced, match="newcomer appended first"):
            await log.append("zombie")
    assert texts(await log.read()) == ["mine now"]


async def test_a_writer_that_appends_twice_at_a_time_is_refused_the_second(log: TaskLog) -> None:
    both = await asyncio.gather(log.append("one"), log.append("two"), return_exceptions=True)
    assert [type(result) for result in both] == [AppendResult, RuntimeError]
    await log.append("three")
    entries = await log.read()
    assert texts(entries) == ["one", "three"]
    assert generations(entries) == [1, 2, 3]


async def test_a_writer_cannot_append_another_generation_than_the_next(log: TaskLog) -> None:
    with pytest.raises(RuntimeError, match="5 after 1"):
        await log.writer.append([], Stamp(log.id, 5, "writer", WORKING, 1))
    assert generations(await log.read()) == [1]


async def test_two_that_start_the_same_log_do_not_both_succeed(bus: Bus) -> None:
    first = TaskLog(bus)
    second = TaskLog(bus, first.key, writer="second")
    await first.begin()
    with pytest.raises(Fenced):
        await second.begin()
    assert {entry.stamp.log for entry in await first.read()} == {first.id}


@pytest.mark.parametrize("keep", [None, 1])
async def test_a_writer_of_a_purged_log_never_starts_it_afresh(
    log: TaskLog, keep: int | None
) -> None:
    await log.grow(5)
    stale = TaskLog(log.bus, log.key)
    stale.id, stale.writer = log.id, LogWriter(log.bus, log.key, sequence=log.writer.sequence)
    await log.append("the end")
    await log.purge(keep)
    with pytest.raises(Fenced if keep else LogLost):
        await stale.append("zombie")
    last = await last_entry(log.bus, log.key)
    assert last is None if keep is None else (last is not None and last.last_generation == 6)


async def test_an_event_beyond_a_message_is_refused_before_it_is_sent(log: TaskLog) -> None:
    room = log.writer.capacity - log.text_event("").size
    await log.append("x" * room)
    with pytest.raises(EventTooLarge) as refusal:
        await log.append("x" * (log.bus.max_payload - 100))
    assert refusal.value.limit == log.writer.capacity < refusal.value.size
    await log.append("still here")
    assert generations(await log.read()) == [1, 2, 3]


async def test_the_largest_message_with_the_largest_headers_is_taken(log: TaskLog) -> None:
    def stamp(checkpoint: int) -> Stamp:
        return Stamp(log.id, 2, log.name, WORKING, 1, 1, checkpoint="ü" * (checkpoint // 2))

    draft = log.text_event("x" * (log.writer.capacity - log.text_event("").size))
    with pytest.raises(EventTooLarge):
        await log.writer.append([draft], stamp(HEADER_ROOM))
    await log.writer.append([draft], stamp(HEADER_ROOM - 400))
    last = await last_entry(log.bus, log.key)
    assert last is not None
    assert last.stamp == stamp(HEADER_ROOM - 400)


async def test_a_full_stream_refuses_and_takes_on_where_it_was(own: Bus) -> None:
    log = TaskLog(own)
    await log.begin()
    await limit(own, 20_000)
    with pytest.raises(LogFull):
        await log.grow(200)
    reached = log.writer.generation
    assert reached > 2
    await limit(own, -1)
    await log.grow(reached + 5)
    assert generations(await log.read()) == list(range(1, reached + 6))


async def limit(bus: Bus, max_bytes: int) -> None:
    given = bus.settings.model_dump()
    await apply(bus.js, BusSettings(**given | {"events_max_bytes": max_bytes}), shrink=True)


async def test_writers_step_over_what_is_no_entry(bus: Bus, rule: TailRule, log: TaskLog) -> None:
    async with following(bus, rule, log.key) as reading:
        for generation in range(2, 6):
            await log.junk()
            await log.junk({"Headrace-Version": "2", "Headrace-Generation": str(generation)})
            await log.append("behind junk")
        assert await reading.until(5) == [1, 2, 3, 4, 5]
    assert generations(await log.read()) == [1, 2, 3, 4, 5]
