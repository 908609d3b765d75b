"""A process whose event loop stands still while live messages pour in."""

import asyncio
import threading
import time

import pytest

from headrace.jetstream.connection import Bus
from headrace.log import TailRule, last_entry
from headrace.log.tail_rule import TailTiming
from tests.integration.shared.conftest import Connect
from tests.support.servers import NatsProcess
from tests.support.task_log import TaskLog, following
from tests.support.topology import Topology

MESSAGES = 75
"""Of a megabyte each: more than the 64 MiB that nats-server keeps for who does not read."""


@pytest.fixture(scope="module")
def topology(nats_server: NatsProcess) -> Topology:
    """One node: who is slow to read is cut off by the node it is connected to."""
    return Topology([nats_server])


async def test_a_loop_that_was_blocked_until_the_server_hung_up_catches_up(
    connect: Connect,
) -> None:
    bus = await connect()
    rule = TailRule(bus, TailTiming(silence=3600.0))  # only the reconnect can tell
    await rule.start()
    log = TaskLog(bus)
    await log.begin()
    async with following(bus, rule, log.key) as reading:
        await reading.until(1)
        writing = threading.Thread(target=asyncio.run, args=[write(log)])
        writing.start()
        while writing.is_alive():
            time.sleep(0.05)  # noqa: ASYNC251 - blocks the loop on purpose
        assert await reading.until(MESSAGES + 1) == list(range(1, MESSAGES + 2))
    assert bus.connection.stats["reconnects"] >= 1
    await rule.stop()


async def write(log: TaskLog) -> None:
    """Append from a connection of its own, in another thread's loop."""
    bus = Bus(log.bus.settings)
    try:
        await bus.connect("elsewhere")
        last = await last_entry(bus, log.key)
        assert last is not None
        elsewhere = log.behind(last, bus=bus, writer="elsewhere")
        for _ in range(MESSAGES):
            await elsewhere.append("x" * 1_000_000)
    finally:
        await bus.close()
