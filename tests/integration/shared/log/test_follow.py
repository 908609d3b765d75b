"""Following a log: every entry once and in order, although live is only a hint."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.log import TailRule, last_entry
from headrace.log.tail_rule import TailTiming
from tests.integration.shared.conftest import Connect
from tests.support.jetstream_api import answered
from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.task_log import TaskLog, following, generations
from tests.support.topology import Topology
from tests.support.waiting import soon


async def test_a_log_is_followed_from_before_its_first_entry(bus: Bus, rule: TailRule) -> None:
    log = TaskLog(bus)
    async with following(bus, rule, log.key) as reading:
        await log.begin()
        await log.grow(50, batch=7)
        assert await reading.until(50) == list(range(1, 51))


async def test_followers_that_come_later_get_what_lies_behind_where_they_begin(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    await log.grow(20)
    begin = log.writer.sequence
    await log.grow(30)
    async with (
        following(bus, rule, log.key) as from_the_start,
        following(bus, rule, log.key, begin) as from_the_middle,
    ):
        await log.grow(40)
        assert await from_the_start.until(40) == list(range(1, 41))
        assert await from_the_middle.until(40) == list(range(21, 41))


async def test_what_is_appended_while_a_follower_begins_comes_once(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    growing, begun = asyncio.create_task(log.grow(200)), 0
    while (last := await last_entry(bus, log.key)) and last.last_generation < 150:
        async with following(bus, rule, log.key, last.sequence) as reading:
            first = last.last_generation + 1
            seen = await reading.until(first + 9)
            assert seen == list(range(first, first + len(seen)))
            begun += 1
    await growing
    assert begun > 0


async def test_live_copies_that_are_lost_are_read_from_the_log(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        rule = TailRule(shaky)
        await rule.start()
        proxy.loses = lambda frame: is_live(frame) and len(frame) % 3 == 0
        async with following(shaky, rule, log.key) as reading:
            await log.grow(300)
            proxy.loses = lambda _: False
            await log.append("shows the last gap")
            assert await reading.until(301) == list(range(1, 302))
        assert proxy.lost
        await rule.stop()


def is_live(frame: Frame) -> bool:
    return b".live." in frame.partition(b"\r\n")[0]


async def test_a_live_message_that_is_never_republished_is_still_delivered(own: Bus) -> None:
    rule = TailRule(own, TailTiming(silence=0.5))
    await rule.start()
    log = TaskLog(own)
    await log.begin()
    async with following(own, rule, log.key) as reading:
        assert await reading.until(1) == [1]
        await stop_republishing(own)
        await log.grow(10)
        assert await reading.until(10) == list(range(1, 11))
    await rule.stop()


async def stop_republishing(bus: Bus) -> None:
    config = (await answered(lambda: bus.js.stream_info(bus.streams.events(0)))).config
    config.republish = None
    await answered(lambda: bus.js.update_stream(config))


async def test_messages_that_do_not_parse_are_stepped_over(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    async with following(bus, rule, log.key) as live, following(bus, rule, log.key) as late:
        late.follower.sequence = -1  # holds until it begins
        for generation in range(2, 12):
            await log.junk()
            await log.append(f"event {generation}")
        end = await log.junk()
        late.follower.begin(0)
        for reading in (live, late):
            assert await reading.until(11) == list(range(1, 12))
        await soon(lambda: live.follower.sequence == end, "the follower is at the junk")


async def test_a_purged_log_is_lost_and_nothing_comes_after(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    await log.grow(10)
    async with following(bus, rule, log.key) as reading:
        await reading.until(10)
        await log.purge()
        rule.check_all()
        await reading.until_lost()
        reborn = TaskLog(bus, log.key)
        await reborn.begin()
        await reborn.append("of another log")
        rule.check_all()
        await asyncio.sleep(0.3)
        assert reading.generations == list(range(1, 11))
        assert len(reading.losses) == 1


async def test_a_log_that_was_begun_anew_is_lost_to_who_followed_the_old_one(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    await log.grow(10)
    async with following(bus, rule, log.key) as reading:
        await reading.until(10)
        await log.purge()
        reborn = TaskLog(bus, log.key)
        await reborn.begin()
        await reading.until_lost()
        assert reading.generations == list(range(1, 11))


async def test_a_log_trimmed_behind_a_follower_is_lost_not_a_hole(
    connect: Connect, topology: Topology, log: TaskLog
) -> None:
    await log.grow(10)
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        rule = TailRule(shaky)
        await rule.start()
        async with following(shaky, rule, log.key) as reading:
            await reading.until(10)
            proxy.loses = lambda _: True  # or a check might see the log between both
            await log.grow(20)
            await log.purge(keep=1)
            proxy.loses = is_live
            rule.check_all()
            # A copy that has not heard of the purge yet may still have it all.
            await soon(
                lambda: reading.losses != [] or reading.generations[-1] == 20,
                "it is lost, or whole",
            )
            assert reading.generations == list(range(1, 1 + len(reading.generations)))
            assert reading.losses or topology.replicas > 1
        await rule.stop()


async def test_a_log_that_begins_while_its_emptiness_is_confirmed_is_not_lost(
    bus: Bus, rule: TailRule
) -> None:
    logs = [TaskLog(bus) for _ in range(8)]
    for log in logs:
        async with following(bus, rule, log.key) as reading:
            rule.check_all()
            await asyncio.sleep(0.05)  # the rule's tick: it asks just now
            await log.begin()
            await reading.until(1)
            reading.follower.tail_is(0)  # what it would hear if the answer had been late
            await log.append("goes on")
            assert await reading.until(2) == [1, 2]
            assert reading.losses == []
    assert len(logs) == 8


async def test_many_logs_are_followed_over_a_reconnect(
    connect: Connect, topology: Topology, bus: Bus
) -> None:
    logs = [TaskLog(bus) for _ in range(30)]
    await asyncio.gather(*(log.begin() for log in logs))
    async with NatsProxy(topology.nodes[0].port) as proxy:
        shaky = await connect(nats_url=proxy.url)
        rule = TailRule(shaky)
        await rule.start()
        contexts = [following(shaky, rule, log.key) for log in logs]
        readings = [await context.__aenter__() for context in contexts]
        await asyncio.gather(*(reading.until(1) for reading in readings))
        proxy.hold()
        await proxy.cut()
        await asyncio.gather(*(log.grow(5) for log in logs))
        proxy.release()
        for reading in readings:
            assert await reading.until(5) == [1, 2, 3, 4, 5]
        for context in contexts:
            await context.__aexit__(None, None, None)
        await rule.stop()


async def test_a_stopped_follower_receives_nothing_more(
    bus: Bus, rule: TailRule, log: TaskLog
) -> None:
    async with following(bus, rule, log.key) as reading:
        await reading.until(1)
    await log.grow(5)
    rule.check_all()
    await bus.connection.flush()
    assert generations(reading.entries) == [1]
