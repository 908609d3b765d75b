"""Appends that are begun without waiting, as many runs' text at a tick: each is stored once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from headrace.jetstream.connection import Bus, BusTiming
from headrace.log import AppendRequest, last_entry
from headrace.model.errors import Fenced, LogFull
from tests.integration.shared.conftest import Connect
from tests.integration.shared.log.test_append import limit
from tests.support.nats_proxy import Frame, NatsProxy
from tests.support.servers import NatsProcess
from tests.support.task_log import TIMEOUT, TaskLog, generations, texts
from tests.support.topology import Topology

LOGS, EVENTS = 10, 60


@pytest.fixture(scope="module")
def nats_server(own_nats_server: NatsProcess) -> NatsProcess:
    """The one node, which a test here restarts."""
    return own_nats_server


def send(log: TaskLog, text: str) -> AppendRequest:
    return log.writer.send([log.text_event(text)], log.stamp())


async def settle(log: TaskLog, sent: AppendRequest) -> bool:
    """End an append as a worker does; return whether its first answer was a clean ack."""
    await asyncio.wait([sent.answer])
    if log.writer.acked(sent) is not None:
        return True
    await log.writer.finish(sent, TIMEOUT)
    return False


async def grow(log: TaskLog, events: int) -> None:
    for number in range(events):
        await settle(log, send(log, f"event {number}"))


@pytest.fixture
async def proxy(topology: Topology) -> AsyncIterator[NatsProxy]:
    async with NatsProxy(topology.nodes[0].port) as proxy:
        yield proxy


@pytest.fixture
async def shaky(connect: Connect, proxy: NatsProxy) -> TaskLog:
    """A log over a connection through the proxy, whose answers are late after 0.2 s."""
    log = TaskLog(await connect(BusTiming(ack=0.2, leader=0.2), nats_url=proxy.url))
    await log.begin()
    return log


def is_ack(frame: Frame) -> bool:
    return b'{"stream":' in frame and b'"seq":' in frame


async def test_what_is_sent_is_stored_without_a_task(log: TaskLog) -> None:
    tasks = asyncio.all_tasks()
    sent = [send(log, "one")]
    assert asyncio.all_tasks() == tasks
    with pytest.raises(RuntimeError, match="two appends at a time"):
        send(log, "too early")
    assert await settle(log, sent[0])
    assert await settle(log, send(log, "two"))
    assert texts(await log.read()) == ["one", "two"]
    assert log.bus.connection._answers == {}


async def test_a_writer_that_was_overtaken_is_fenced(log: TaskLog) -> None:
    last = await last_entry(log.bus, log.key)
    assert last is not None
    await log.behind(last, writer="newcomer").append("mine now")
    with pytest.raises(Fenced, match="newcomer appended first"):
        await settle(log, send(log, "zombie"))
    assert texts(await log.read()) == ["mine now"]


async def test_an_append_without_an_ack_is_stored_once(shaky: TaskLog, proxy: NatsProxy) -> None:
    proxy.lose_next(is_ack)
    is_clean = await settle(shaky, send(shaky, "unheard"))
    assert (is_clean, len(proxy.lost)) == (False, 1)
    await settle(shaky, send(shaky, "next"))
    assert texts(await shaky.read()) == ["unheard", "next"]
    assert shaky.bus.connection._answers == {}


async def test_appends_that_are_late_in_any_number_are_stored_once(
    shaky: TaskLog, proxy: NatsProxy
) -> None:
    """One timer serves all answers: each is late by itself."""
    logs = [TaskLog(shaky.bus) for _ in range(5)]
    for log in logs:
        await log.begin()
    proxy.hold()
    sent = [(log, send(log, "late")) for log in logs]
    finishing = [asyncio.create_task(settle(log, one)) for log, one in sent]
    await asyncio.sleep(0.5)  # two of each are on their way by now
    proxy.release()
    assert await asyncio.gather(*finishing) == [False] * len(logs)
    for log in logs:
        await settle(log, send(log, "next"))
    assert [texts(await log.read()) for log in logs] == [["late", "next"]] * len(logs)


async def test_what_is_sent_without_a_connection_is_stored_after_it_is_back(
    shaky: TaskLog, proxy: NatsProxy
) -> None:
    client = shaky.bus.connection
    await proxy.cut()
    async with asyncio.timeout(60):
        while client.is_connected:  # noqa: ASYNC110 - nats-py reports it to the bus only
            await asyncio.sleep(0)
    assert not await settle(shaky, send(shaky, "offline"))
    assert texts(await shaky.read()) == ["offline"]


async def test_an_append_that_is_given_up_leaves_nothing_behind(log: TaskLog) -> None:
    sent = send(log, "given up")
    log.writer.give_up(sent)
    assert sent.answer.cancelled()
    with pytest.raises(Fenced):  # It was stored all the same.
        await log.append("something else")
    assert texts(await log.read()) == ["given up"]


async def test_a_full_stream_refuses_what_is_sent_and_takes_on_where_it_was(own: Bus) -> None:
    log = TaskLog(own)
    await log.begin()
    await limit(own, 20_000)
    with pytest.raises(LogFull):
        await grow(log, 200)
    reached = log.writer.generation
    assert reached > 2
    await limit(own, -1)
    await settle(log, send(log, "after"))
    entries = await log.read()
    assert generations(entries) == list(range(1, reached + 2))
    assert texts(entries)[-1] == "after"


async def test_ticks_around_a_kill_of_the_leader_leave_no_hole_and_no_duplicate(
    bus: Bus, topology: Topology
) -> None:
    logs = [TaskLog(bus) for _ in range(LOGS)]
    for log in logs:
        await log.begin()
    leader = await topology.leader(bus, logs[0].stream)
    clean, restarting = Counter[bool](), list[asyncio.Task[object]]()
    try:
        for number in range(EVENTS):
            sent = [(log, send(log, f"event {number}")) for log in logs]
            if number == EVENTS // 3:
                await asyncio.to_thread(leader.kill)
                restarting.append(asyncio.create_task(asyncio.to_thread(leader.start)))
            clean.update(await asyncio.gather(*(settle(log, one) for log, one in sent)))
        await asyncio.gather(*restarting)
    finally:
        await asyncio.to_thread(topology.heal)
    read = [await log.read() for log in logs]
    assert [generations(entries) for entries in read] == [list(range(1, EVENTS + 2))] * LOGS
    assert [texts(entries) for entries in read] == [[f"event {n}" for n in range(EVENTS)]] * LOGS
    assert clean[True] > LOGS * EVENTS // 2
