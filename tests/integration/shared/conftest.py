"""A bus on one node and on three, and no complaint from asyncio or nats-py left unheard."""

import asyncio
import gc
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest

from headrace.jetstream.connection import TIMING, Bus, BusTiming
from headrace.log import TailRule
from headrace.settings import BusSettings
from tests.support.delete_stream import delete_stream
from tests.support.task_log import TaskLog
from tests.support.topology import Topology


class Connect(Protocol):
    """Returns a connected bus; the test's end closes it."""

    async def __call__(self, timing: BusTiming = TIMING, **settings: Any) -> Bus: ...  # noqa: ANN401 - any setting


@pytest.fixture(scope="module", params=["one node", "three nodes"])
def topology(request: pytest.FixtureRequest) -> Topology:
    """One nats-server, then a cluster of three: what holds must hold on both."""
    if request.param == "one node":
        return Topology([request.getfixturevalue("nats_server")])
    cluster = request.getfixturevalue("nats_cluster")
    return Topology(cluster.nodes, cluster)


@pytest.fixture(scope="module")
def fleet(topology: Topology) -> str:
    """Prefix of the streams that tests share which leave them as they are."""
    return f"fleet{topology.replicas}"


@pytest.fixture
async def connect(topology: Topology, fleet: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect(timing: BusTiming = TIMING, **settings: Any) -> Bus:  # noqa: ANN401 - any setting
            defaults: dict[str, Any] = {
                "nats_url": topology.url,
                "replicas": topology.replicas,
                "prefix": fleet,
                "stream_prefix": fleet,
            }
            bus = Bus(BusSettings(**defaults | settings), timing=timing)
            stack.push_async_callback(bus.close)
            await bus.connect("contract test")
            return bus

        yield connect


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    """A connection to streams that all tests share."""
    return await connect()


@pytest.fixture
async def own(connect: Connect) -> AsyncIterator[Bus]:
    """A connection to streams of the test's own, to spoil."""
    name = f"own{secrets.token_hex(4)}"
    bus = await connect(prefix=name, stream_prefix=name)
    yield bus
    for stream in (bus.streams.events(0), bus.streams.runs, bus.streams.dead):
        await delete_stream(bus.js, stream)
    await delete_stream(bus.js, f"KV_{bus.streams.agents}")


@pytest.fixture
async def rule(bus: Bus) -> AsyncIterator[TailRule]:
    rule = TailRule(bus)
    await rule.start()
    yield rule
    await rule.stop()


@pytest.fixture
async def log(bus: Bus) -> TaskLog:
    """A log with generation 1."""
    log = TaskLog(bus)
    await log.begin()
    return log


@pytest.fixture(scope="module")
def complaints() -> Iterator[list[str]]:
    """What event loops had to say of a module's tests: tasks that died unheard, say."""
    complaints: list[str] = []
    yield complaints
    # Once per module: a full collection takes as long as a quick test.
    gc.collect()
    assert complaints == []


@pytest.fixture(autouse=True)
async def _no_complaint(complaints: list[str]) -> None:
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: complaints.append(str(context))
    )


@pytest.fixture(autouse=True)
def _no_logged_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "headrace")
    yield
    errors = [r.getMessage() for r in caplog.get_records("call") if r.levelno >= logging.ERROR]
    assert errors == []
