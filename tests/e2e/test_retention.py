"""Tasks go through a stream that holds a fraction of them, and nothing of them is left."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson
import pytest

from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.stack import BASIC_AGENTS, Stack
from tests.support.waiting import eventually

TASKS = 20_000 if "HEADRACE_SOAK" in os.environ else 400
STREAM = 3_000_000 if "HEADRACE_SOAK" in os.environ else 200_000
"""Bytes: a fifth of what the tasks take, about, or less."""

AT_ONCE = 32
_TIMEOUT = 240.0
_USAGE = b"headrace:usage:"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the fleet holds at one moment."""

    messages: int
    subjects: int
    size: int
    """Bytes."""
    keys: int
    """Of Redis, without those of usage, which is kept when tasks are erased."""


class Store:
    """The fleet's servers, and what they keep."""

    def __init__(self, folder: Path) -> None:
        """Keep everything under `folder`."""
        self.folder = folder
        self.nats = NatsProcess(folder / "nats")
        self.valkey = ValkeyProcess(folder / "valkey")

    async def sizes(self, bus: Bus, redis: Connection) -> Sizes:
        info = await bus.request(f"$JS.API.STREAM.INFO.{bus.streams.events(0)}", b"", 30.0)
        state = orjson.loads(info.data)["state"]
        [keys] = await redis.ask(["KEYS", "*"])
        view = [key for key in keys if not key.startswith(_USAGE)]
        return Sizes(state["messages"], state.get("num_subjects", 0), state["bytes"], len(view))

    def holding(self, text: bytes) -> dict[str, int]:
        """Return how often the text is in which files of the servers."""
        found = {
            str(path.relative_to(self.folder)): _count(path, text)
            for path in self.folder.rglob("*")
            if path.is_file() and path.suffix != ".log"
        }
        return {name: times for name, times in found.items() if times}


def _count(path: Path, text: bytes) -> int:
    """Return how often `text` is in a file, which its server may have removed by now."""
    try:
        return path.read_bytes().count(text)
    except FileNotFoundError:
        return 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    with ExitStack() as running:
        for server in (store.nats, store.valkey):
            server.start()
            running.callback(server.kill)
        yield store


@pytest.fixture
def bounded(store: Store, tmp_path: Path) -> Iterator[Stack]:
    """A fleet with a small stream that keeps little of what has ended."""
    environment = {
        "HEADRACE_NATS_URL": store.nats.url,
        "HEADRACE_REDIS_URL": store.valkey.url,
        "HEADRACE_EVENTS_MAX_BYTES": str(STREAM),
        "HEADRACE_RETENTION": "2",
        "HEADRACE_TOMBSTONE_SECONDS": "1",
    }
    stack = Stack(tmp_path / "stack", agents=BASIC_AGENTS, environment=environment)
    stack.start()
    yield stack
    stack.stop()


class Traffic:
    """Tasks, some at a time, and what they make of the servers."""

    def __init__(self, store: Store, bus: Bus, redis: Connection, secret: str) -> None:
        """Have each task say `secret`."""
        self.seen: list[Sizes] = []
        self.refused = 0
        self._store, self._bus, self._redis, self._secret = store, bus, redis, secret
        self._numbers = iter(range(TASKS))

    async def run(self, gateway: str) -> None:
        """Send all of them."""
        limits = httpx.Limits(max_connections=AT_ONCE)
        async with httpx.AsyncClient(timeout=_TIMEOUT, limits=limits, verify=NO_TLS) as http:
            agent = PlainAgent(http, gateway, "echo")
            await asyncio.gather(*(self._send(agent) for _ in range(AT_ONCE)))

    async def _send(self, agent: PlainAgent) -> None:
        for number in self._numbers:
            while (answer := await agent.send(f"{self._secret} {number}")).status_code != 200:
                assert answer.status_code == 503, answer.text
                self.refused += 1
                if "Retry-After" not in answer.headers:
                    break  # It was taken in, and goes on when there is room.
                await asyncio.sleep(float(answer.headers["Retry-After"]))
            if number % (TASKS // 20) == 0:
                self.seen.append(await self._store.sizes(self._bus, self._redis))


@pytest.fixture
async def looked_at_through(store: Store) -> AsyncIterator[tuple[Bus, Connection]]:
    """Connections to both servers, closed whatever the test finds."""
    async with AsyncExitStack() as opened:
        bus = Bus(BusSettings(nats_url=store.nats.url))
        opened.push_async_callback(bus.close)
        await bus.dial("test")
        redis = Connection(RedisSettings(redis_url=store.valkey.url))
        opened.push_async_callback(redis.close)
        yield bus, redis


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_a_bounded_stream_takes_any_number_of_tasks_and_keeps_none(
    bounded: Stack, store: Store, looked_at_through: tuple[Bus, Connection]
) -> None:
    secret = f"secret-{secrets.token_hex(8)}"
    bus, redis = looked_at_through
    before = await store.sizes(bus, redis)
    traffic = Traffic(store, bus, redis, secret)
    await traffic.run(bounded.gateways[0])
    _log.info("%d refused, %s before, then %s", traffic.refused, before, traffic.seen)
    assert max(sizes.size for sizes in traffic.seen) <= STREAM
    assert max(sizes.subjects for sizes in traffic.seen) < TASKS

    async def nothing_is_left() -> bool:
        now = await store.sizes(bus, redis)
        return now.messages == now.subjects == now.size == 0 and now.keys <= before.keys

    await eventually(nothing_is_left, "all tasks are gone", _TIMEOUT)
    [usage] = await redis.ask(["KEYS", _USAGE + b"*"])
    expiring = await redis.ask(*(["TTL", key] for key in usage))
    assert len(expiring) > 0
    assert min(expiring) > 0, "usage is kept for a time"
    await redis.ask(["BGREWRITEAOF"])

    async def no_file_has_it() -> bool:
        return not store.holding(secret.encode())

    await eventually(no_file_has_it, "no file has the users' text", _TIMEOUT)
