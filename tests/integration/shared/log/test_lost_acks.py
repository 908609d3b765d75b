"""Appends whose outcome is unknown: the ack is lost, late, or the connection goes away."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream.connection import Bus, BusTiming
from headrace.log import TailRule, last_entry
from headrace.log.append import AppendResult
from headrace.log.tail_rule import FIRST_CHECK, TailTiming
from headrace.model.entry import Stamp
from headrace.model.errors import BusUnavailable, Fenced
from headrace.model.events import Draft
from tests.integration.shared.conftest import Connect
from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.task_log import TaskLog, following, generations, texts
from tests.support.topology import Topology
from tests.support.waiting import soon

HASTY = BusTiming(ack=0.2, leader=0.2)
"""An answer is late after 0.2 s, so that tests need not wait long for what never comes."""


@pytest.fixture
async def proxy(topology: Topology) -> AsyncIterator[NatsProxy]:
    async with NatsProxy(topology.nodes[0].port) as proxy:
        yield proxy


@pytest.fixture
async def shaky(connect: Connect, proxy: NatsProxy) -> Bus:
    """A connection through the proxy."""
    return await connect(HASTY, nats_url=proxy.url)


@pytest.fixture
async def log(shaky: Bus) -> TaskLog:
    log = TaskLog(shaky)
    await log.begin()
    return log


def is_ack(frame: Frame) -> bool:
    return b'{"stream":' in frame and b'"seq":' in frame


def is_live(frame: Frame) -> bool:
    return b".live." in frame.partition(b"\r\n")[0]


async def test_an_append_whose_ack_was_lost_is_known_for_its_own(
    log: TaskLog, proxy: NatsProxy
) -> None:
    for generation in range(2, 5):
        proxy.lost.clear()
        proxy.lose_next(is_ack)
        appended = await log.append(f"event {generation}")
        assert len(proxy.lost) == 1
        last = await last_entry(log.bus, log.key)
        assert last is not None
        assert appended == AppendResult(last.sequence, generation)
    assert texts(await log.read()) == [f"event {g}" for g in range(2, 5)]


async def test_the_payload_whose_ack_was_lost_is_stored_once_and_seen_live_once(
    log: TaskLog, proxy: NatsProxy, bus: Bus, rule: TailRule
) -> None:
    async with following(bus, rule, log.key) as reading:
        proxy.lose_next(is_ack)
        await log.append("once")
        await log.append("next")
        assert await reading.until(3) == [1, 2, 3]


async def test_a_lost_ack_and_another_writer_in_between_make_no_false_fence(
    log: TaskLog, proxy: NatsProxy, bus: Bus
) -> None:
    proxy.lose_next(is_ack)
    appending = asyncio.create_task(log.append("mine"))
    await asyncio.wait_for(proxy.until_lost(), 60)
    last = await last_entry(bus, log.key)
    assert last is not None
    await log.behind(last, bus=bus, writer="other").append("fences")
    assert (await appending).generation == 2
    with pytest.raises(Fenced):
        await log.append("too late")
    assert texts(await log.read()) == ["mine", "fences"]


async def test_who_resolved_an_unknown_outcome_has_readers_look(
    log: TaskLog, proxy: NatsProxy, shaky: Bus
) -> None:
    rule = TailRule(shaky, TailTiming(silence=3600.0))
    await rule.start()
    async with following(shaky, rule, log.key) as reading:
        await reading.until(1)
        await asyncio.sleep(FIRST_CHECK + 0.2)  # from here on, only a request shows a loss
        proxy.loses = lambda f: is_live(f) or (is_ack(f) and not any(map(is_ack, proxy.lost)))
        await log.append("acknowledged by nobody, seen by nobody")
        assert await reading.until(2, timeout=60) == [1, 2]
    assert [is_live(frame) for frame in proxy.lost].count(True) == 1
    await rule.stop()


async def test_a_publish_that_is_late_does_not_duplicate(log: TaskLog, proxy: NatsProxy) -> None:
    proxy.hold()
    appending = asyncio.create_task(log.append("late"))
    await asyncio.sleep(0.5)  # two of them are on their way by now
    proxy.release()
    assert (await appending).generation == 2
    await log.append("next")
    assert texts(await log.read()) == ["late", "next"]


async def test_what_was_buffered_over_a_reconnect_does_not_duplicate(
    log: TaskLog, proxy: NatsProxy
) -> None:
    proxy.hold()
    appending = asyncio.create_task(log.append("buffered"))
    await asyncio.sleep(0.1)
    await proxy.cut()
    await asyncio.sleep(0.5)  # nats-py keeps every try, and sends them all when it reconnects
    proxy.release()
    assert (await appending).generation == 2
    await log.append("next")
    assert texts(await log.read()) == ["buffered", "next"]


async def test_an_append_given_up_may_be_repeated_and_is_then_its_own(
    log: TaskLog, proxy: NatsProxy
) -> None:
    drafts, stamp = [log.text_event("given up")], log.stamp()
    await give_up(log, proxy, drafts, stamp)
    appended = await log.writer.append(drafts, stamp)
    assert appended.generation == log.writer.generation == 2
    assert texts(await log.read()) == ["given up"]


async def test_an_append_given_up_but_stored_never_passes_for_another(
    log: TaskLog, proxy: NatsProxy
) -> None:
    await give_up(log, proxy, [log.text_event("given up")], log.stamp())
    with pytest.raises(Fenced):
        await log.append("something else")
    assert texts(await log.read()) == ["given up"]


async def give_up(log: TaskLog, proxy: NatsProxy, drafts: list[Draft], stamp: Stamp) -> None:
    proxy.hold()
    with pytest.raises(BusUnavailable):
        await log.writer.append(drafts, stamp, timeout=0.2)
    proxy.release()


async def test_appends_survive_a_connection_that_keeps_breaking(
    log: TaskLog, proxy: NatsProxy, bus: Bus, rule: TailRule
) -> None:
    async with following(bus, rule, log.key) as reading:
        growing = asyncio.create_task(log.grow(200))
        while not growing.done():
            # However long it takes to connect: something gets through in between.
            goal = log.writer.generation + 10

            def has_grown(goal: int = goal) -> bool:
                return growing.done() or log.writer.generation >= goal

            await soon(has_grown, "the log has grown")
            await proxy.cut()
        await growing
        assert await reading.until(200) == list(range(1, 201))
    assert generations(await log.read()) == list(range(1, 201))
