"""Replaying a log: all of it, in order, or a clear loss."""

import asyncio
from itertools import pairwise
from typing import cast

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.client import ReceivedMessage, StreamPosition
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.headers import SEQUENCE
from headrace.log import TailRule, last_entry, replay
from headrace.log.read import last_stored, next_stored, short_log
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from tests.integration.shared.conftest import Connect
from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.raw_nats import publish_raw
from tests.support.task_log import TaskLog, following, generations
from tests.support.topology import Topology
from tests.support.waiting import eventually


async def read(bus: Bus, log: TaskLog, after: int = 0, **options: int) -> list[Entry]:
    batches = replay(bus, log.key, after, log.writer.sequence, **options)
    return [entry async for batch in batches for entry in batch]


async def store_at_once(log: TaskLog, count: int) -> None:
    """Store `count` more entries of one event without waiting for each."""
    first = log.writer.generation + 1
    acks = []
    for generation in range(first, first + count):
        log.writer.generation = generation - 1
        line = log.text_event(f"event {generation}").line(generation)
        headers = log.stamp().headers()
        acks.append(log.bus.js.publish(log.subject, line, timeout=60, headers=headers))
    for some in range(0, count, 500):
        log.writer.sequence = (await asyncio.gather(*acks[some : some + 500]))[-1].seq
    log.writer.generation = first + count - 1


async def test_ten_thousand_events_are_replayed_in_order(bus: Bus, log: TaskLog) -> None:
    other = TaskLog(bus)
    for _ in range(10):
        await store_at_once(log, 1000)
        await store_at_once(other, 50)
    entries = await read(bus, log)
    assert generations(entries) == list(range(1, 10_002))
    assert [entry.sequence for entry in entries] == sorted({entry.sequence for entry in entries})


async def test_a_replay_begins_and_ends_where_requested(bus: Bus, log: TaskLog) -> None:
    await log.grow(30, batch=3)
    middle = log.writer.sequence
    await log.grow(60, batch=4)
    assert generations(await read(bus, log, middle)) == list(range(31, 61))
    first_half = [e async for batch in replay(bus, log.key, 0, middle) for e in batch]
    assert generations(first_half) == list(range(1, 31))
    assert await read(bus, log, log.writer.sequence) == []


async def test_small_batches_make_the_same_replay(bus: Bus, log: TaskLog) -> None:
    await log.grow(100)
    assert await read(bus, log, batch_bytes=700) == await read(bus, log)


async def test_live_replayed_and_leader_s_copies_are_the_same(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    async with following(bus, rule, log.key) as reading:
        await log.grow(20, batch=3)
        await reading.until(20)
        replayed = await read(bus, log)
        leaders = []
        sequence = 0
        while (stored := await next_stored(bus, log.key, sequence)) is not None:
            assert stored.entry is not None
            leaders.append(stored.entry)
            sequence = stored.sequence
        assert reading.entries == replayed == leaders


async def test_a_replay_through_a_connection_that_loses_messages_has_no_hole(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    await log.grow(400)
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        come = 0

        def loses(frame: Frame) -> bool:
            nonlocal come
            come += b"Nats-Num-Pending" in frame
            return come % 150 == 0

        proxy.loses = loses
        assert generations(await read(shaky, log)) == list(range(1, 401))
        assert len(proxy.lost) >= 2


async def test_a_replay_survives_that_its_connection_breaks(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    await log.grow(300)
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        entries: list[Entry] = []
        async for batch in replay(shaky, log.key, 0, log.writer.sequence, batch_bytes=5_000):
            if len(entries) < 100 <= len(entries) + len(batch):
                await proxy.cut()
            entries += batch
    assert generations(entries) == list(range(1, 301))


async def test_what_was_appended_a_moment_ago_is_replayed_from_every_node(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    # A follower's copy lags behind the ack now and then: then its answer is empty, or too short.
    buses = [await connect(nats_url=node.url) for node in topology.nodes]
    assert len(buses) == topology.replicas
    for _ in range(100):
        sequence = log.writer.sequence
        appended = await log.append("new", "newer")
        for bus in buses:
            entries = await read(bus, log, sequence)
            assert generations(entries) == [appended.generation - 1, appended.generation]


async def until_lost(bus: Bus, log: TaskLog, after: int = 0) -> None:
    """Replay until it is lost: copies hear of a purge a moment later; until then they have it."""
    whole = list(range(1, log.writer.generation + 1))

    async def is_lost() -> bool:
        try:
            seen = generations(await read(bus, log, after))
        except LogLost:
            return True
        assert seen == whole[-len(seen) :]
        return False

    await eventually(is_lost, "the log is lost")


async def test_a_purged_log_is_lost(bus: Bus, log: TaskLog) -> None:
    await log.grow(10)
    await log.purge()
    for after in (0, log.writer.sequence - 3):
        await until_lost(bus, log, after)


async def test_a_trimmed_log_is_lost_to_who_reads_it_from_its_start(bus: Bus, log: TaskLog) -> None:
    await log.grow(10)
    await log.purge(keep=1)
    await until_lost(bus, log)
    last = await last_entry(bus, log.key)
    assert last is not None
    assert generations([last]) == [10]


JUNK = [
    b"",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0 404 Message Not Found\r\n\r\n",
    b"NATS/1.0 \xff\xfe\xfd\r\n\r\n",
    b"NATS/1.0\r\nStatus: 204\r\nNats-Sequence: 1\r\nNats-Last-Sequence: 7\r\n\r\n",
    b"NATS/1.0\r\nHeadrace-Version\r\n: \r\nHeadr\xffce: \xfe\r\n\r\n",
    b"NATS/1.0\r\nHeadrace-Version: 1\r\nHeadrace-Generation: 9\r\n\r\n",
]
"""Headers as no client library would send them."""


@pytest.mark.parametrize("junk", JUNK)
async def test_a_message_that_does_not_parse_is_stepped_over_by_every_reader(
    bus: Bus, topology: Topology, rule: TailRule, log: TaskLog, junk: bytes
) -> None:
    async with following(bus, rule, log.key) as reading:
        for generation in range(2, 5):
            await asyncio.to_thread(publish_raw, topology.nodes[0].url, log.subject, junk)
            await log.append(f"event {generation}")
        await asyncio.to_thread(publish_raw, topology.nodes[0].url, log.subject, junk)

        async def ends_with_junk() -> bool:
            tail = await last_stored(bus, log.key)
            return tail is not None and tail.entry is None

        await eventually(ends_with_junk, "the last junk is stored")
        last = await last_entry(bus, log.key)
        assert last is not None
        assert generations([last]) == [4]
        assert generations(await read(bus, log)) == [1, 2, 3, 4]
        assert await reading.until(4) == [1, 2, 3, 4]


async def test_the_last_entry_before_much_that_does_not_parse_is_found(
    bus: Bus, log: TaskLog
) -> None:
    await log.grow(40, batch=3)
    for _ in range(20):
        await log.junk()
    last = await last_entry(bus, log.key)
    assert last is not None
    assert last.last_generation == 40


async def test_a_log_of_nothing_that_parses_is_empty(bus: Bus) -> None:
    log = TaskLog(bus)
    assert await last_entry(bus, log.key) is None
    for _ in range(3):
        await log.junk()
    assert await last_entry(bus, log.key) is None
    await log.begin()
    assert generations(await log.read()) == [1]


async def test_where_a_batch_s_messages_are_stored_is_read_from_what_nats_adds(
    bus: Bus, log: TaskLog
) -> None:
    """As of live messages: to parse all headers takes ten times as long."""
    await log.grow(3)
    found = list[Msg]()

    async def has_all() -> bool:
        query = {"batch": 3, "seq": 1, "next_by_subj": log.subject}
        found[:] = (await direct_get(bus, log.stream, query, lambda msg: msg)).messages
        return len(found) == 3

    await eventually(has_all, "a copy that has caught up answers")
    places = [StreamPosition.read(cast("ReceivedMessage", msg).block) for msg in found]
    stored = [0, *(int((msg.headers or {})[SEQUENCE]) for msg in found)]
    assert [place and (place.previous, place.sequence) for place in places] == [*pairwise(stored)]


async def test_a_short_log_is_read_as_a_whole(bus: Bus, log: TaskLog) -> None:
    await log.grow(20, batch=3)
    found = list[Entry]()

    async def is_read() -> bool:
        # A copy that is behind the leader has less.
        found[:] = await short_log(bus, log.key, None, (20, 100_000)) or []
        return bool(found)

    await eventually(is_read, "a copy that has caught up answers")
    assert generations(found) == list(range(1, 21))
    assert await short_log(bus, log.key, None, (19, 100_000)) is None
    assert await short_log(bus, log.key, None, (20, 1_000)) is None, "it has more bytes"
