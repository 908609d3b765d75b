"""Who reads slowly costs the others nothing and gets everything; who reads nothing is cut off."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.deployment import get
from tests.support.fleet import Fleet
from tests.support.resuming import Client, Step
from tests.support.resuming_bindings import REST_GET, Ask, Received, SseStream
from tests.support.resuming_gateway import OwnGateway
from tests.support.resuming_log import assert_exact, whole_log
from tests.support.resuming_sizes import sized
from tests.support.resuming_wire import ConnectionCut
from tests.support.waiting import eventually

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

_EVENTS = sized(10_000, 100_000)
_PACE = float(sized(8_000, 1_000))
"""Bytes per second."""
_WINDOW = 4_096
"""Bytes: the kernel tells the gateway that some were taken when about half of it is free again."""
_STALL = float(sized(8, 60))
"""Seconds: far more than that takes, also beside other work; who is slow is watched for longer."""
_SLOW_FOR = sized(2, 3) * _STALL
_PAUSE = sized(4, 1) / 2
"""Seconds between two readings beside a slow client; each costs its reader a third of a second."""
_MEGABYTE = 1_000_000


@pytest.fixture
async def gateway(fleet: Fleet, tmp_path: Path) -> AsyncIterator[OwnGateway]:
    """A gateway that soon gives up on a client that stops reading."""
    gateway = OwnGateway(tmp_path, fleet.nats_url, stall_timeout=_STALL)
    await asyncio.to_thread(gateway.start)
    yield gateway
    await asyncio.to_thread(gateway.stop)


@dataclass
class SlowClient:
    """One connection, read at a pace that can be changed while it is open."""

    ask: Ask
    begin_when: Callable[[], Awaitable[bool]] | None = None
    """Read nothing before; None: begin at once."""
    received: list[Received] = field(default_factory=list)
    stream: SseStream | None = None

    async def read(self) -> None:
        async with REST_GET.opened(self.ask) as self.stream:
            if self.begin_when is not None:
                await eventually(self.begin_when, "it begins to read", 10 * _STALL)
            async for received in self.stream.events():
                self.received.append(received)

    def hurry(self) -> None:
        assert self.stream is not None
        self.stream.answer.pace = 0


@pytest.fixture(scope="module")
def followed() -> list[Client]:
    """The client of an earlier test of this module."""
    return []


@pytest.fixture
async def client(gateway: OwnGateway, followed: list[Client]) -> Client:
    """A client that has followed a long task, which need not be done anew for each test."""
    if not followed:
        client = Client("counter", str(_EVENTS))
        await client.follow([Step(gateway.url, REST_GET)])
        followed.append(client)
    return followed[0]


async def fast(gateway: OwnGateway, client: Client) -> float:
    """Read the whole task; return how long it took, seconds."""
    begun = time.monotonic()
    again = Client("counter", task=client.task, cursor=client.received[0].cursor)
    await again.follow([Step(gateway.url, REST_GET)])
    assert again.received == client.received[1:]
    return time.monotonic() - begun


async def test_a_slow_client_gets_everything_and_slows_no_other_client(
    fleet: Fleet, gateway: OwnGateway, client: Client
) -> None:
    alone = statistics.median([await fast(gateway, client) for _ in range(3)])
    before = gateway.memory
    cursor = client.received[0].cursor
    slow = SlowClient(
        Ask(gateway.url, "counter", task=client.task, cursor=cursor, window=_WINDOW, pace=_PACE)
    )
    reading = asyncio.create_task(slow.read())
    begun, beside, memory = time.monotonic(), list[float](), list[int]()
    while time.monotonic() - begun < _SLOW_FOR:
        # On a loop of its own: on a busy machine it would keep the slow one from reading at all.
        beside.append(await asyncio.to_thread(asyncio.run, fast(gateway, client)))
        memory.append(gateway.memory)
        await asyncio.sleep(_PAUSE)
    assert not reading.done(), "it is slow, not stalled"
    assert 0 < len(slow.received) < _EVENTS / 10, "it is far behind"
    assert statistics.median(beside) < sized(20, 3) * (alone + 1), "others are held up"
    assert max(memory) - before < 12 * _MEGABYTE
    slow.hurry()
    async with asyncio.timeout(120):
        await reading
    log = await whole_log(fleet.nats_url, "counter", client.task)
    assert_exact(slow.received, log.after(1))


async def test_many_slow_clients_hold_little_each(gateway: OwnGateway, client: Client) -> None:
    await fast(gateway, client)  # What one reader costs is had before.
    before, number = gateway.memory, sized(40, 200)
    ask = Ask(
        gateway.url,
        "counter",
        task=client.task,
        cursor=client.received[0].cursor,
        window=_WINDOW,
        pace=_PACE,
    )
    slow = [SlowClient(ask) for _ in range(number)]
    reading = [asyncio.create_task(each.read()) for each in slow]

    async def all_read() -> bool:
        return all(each.received for each in slow)

    await eventually(all_read, "all slow clients have begun")
    await asyncio.sleep(_SLOW_FOR - _STALL / 2)
    assert not any(task.done() for task in reading)
    assert gateway.memory - before < number * _MEGABYTE
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


async def test_a_client_that_takes_nothing_is_disconnected_and_may_come_back(
    fleet: Fleet, gateway: OwnGateway, client: Client
) -> None:
    cursor = client.received[0].cursor
    ask = Ask(gateway.url, "counter", task=client.task, cursor=cursor, window=_WINDOW)
    stalled = SlowClient(ask, begin_when=lambda: gave_up(gateway))
    with suppress(ConnectionCut):  # It is told, unless it begins to read too late for that.
        await stalled.read()
    assert len(stalled.received) < _EVENTS / 2
    cursor = stalled.received[-1].cursor if stalled.received else cursor
    again = Client("counter", task=client.task, cursor=cursor)
    await again.follow([Step(gateway.url, REST_GET)])
    log = await whole_log(fleet.nats_url, "counter", client.task)
    assert_exact([*stalled.received, *again.received], log.after(1))


async def gave_up(gateway: OwnGateway) -> bool:
    """Tell whether it has hung up: it says why first, and waits for a while that this is taken."""
    if "the client stopped reading" not in gateway.log.read_text():
        return False
    _, page = await asyncio.to_thread(get, gateway.url.removeprefix("http://"), "/metrics")
    return b"\nheadrace_open_streams 0.0\n" in page
