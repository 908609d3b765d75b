"""How fast a lost view is rebuilt, and what reads and messages take meanwhile."""

import asyncio
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson

from headrace.jetstream.connection import Bus
from headrace.model.task import COMPLETED
from headrace.settings import BusSettings
from headrace_task_state.store import all_ranges
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisStore
from tests.benchmarks.bindings import JSON_RPC, Json, message, request
from tests.benchmarks.filling import ShortTasks
from tests.benchmarks.filling import store as store_logs
from tests.benchmarks.http_client import Connection, Exchange, ServerFailed
from tests.benchmarks.subscribers import task_of
from tests.support.stack import Stack
from tests.support.waiting import eventually

_AGENT = "asker"
_BASE = f"/v1/agents/{_AGENT}"
_PACED = "/v1/agents/paced"
_OWNERS = 100
"""Who share half of the tasks."""
_TIMEOUT = 600.0
_BEFORE = 2.0
_PACE = 10
"""Milliseconds from one event of a stream to the next."""

type Client = Callable[[str, Json], Awaitable[tuple[float, Json]]]
"""Calls a method with parameters; returns the seconds that it took, and the answer."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was measured."""

    rate: float
    """Tasks per second."""
    took: dict[str, list[float]]
    """Seconds of each request while the view was being rebuilt, by what was asked for; of a
    subscription, until its first event."""
    streamed: float
    """Events per second of a stream that went on meanwhile."""
    before: float
    """The same before the view was lost."""

    def lines(self) -> Iterator[str]:
        """Say it, a line each."""
        yield f"view rebuilt: {self.rate:.0f} tasks/s"
        for name, seconds in self.took.items():
            at = statistics.quantiles(seconds * 2, n=100, method="inclusive")
            figures = f"{at[49] * 1000:.0f} / {at[98] * 1000:.0f} ms"
            yield f"  {name} meanwhile, p50 / p99 of {len(seconds)}: {figures}"
        yield f"  a stream meanwhile: {self.streamed:.0f} events/s, before: {self.before:.0f}"


async def rebuild(stack: Stack, tasks: int, waiting: int) -> Rebuilt:
    """Store `tasks` short tasks' logs, lose the view, and ask for things until it is back.

    `waiting` tasks wait for their user, to be answered and canceled meanwhile.
    """
    async with (
        opened(stack) as (bus, store),
        connected(stack) as ask,
        connected(stack, _PACED) as ask_paced,
        _streaming(stack, ask_paced) as seen,
    ):
        had = await _listed(ask)
        requests = [await _begin(ask) for _ in range(2 * waiting)]
        short = ShortTasks(bus.subjects, [_AGENT], "anonymous", _OWNERS)
        await store_logs(stack.dev()["nats_url"], short.logs(tasks))
        ended = [key.task for key in short.owned]
        total = had + len(ended) + 2 * waiting
        await eventually(lambda: _is_listed(ask, total), "all is listed", _TIMEOUT)
        before = await _events(seen, asyncio.create_task(asyncio.sleep(_BEFORE)))
        await store.redis.unlink_all("")
        rate = asyncio.create_task(rate_of_rebuild(bus, store, tasks))
        streamed = asyncio.create_task(_events(seen, rate))
        took = await _ask_meanwhile(stack, ask, rate, ended, requests)
        await eventually(lambda: _is_listed(ask, total), "all is listed again", _TIMEOUT)
        return Rebuilt(await rate, took, await streamed, before)


@asynccontextmanager
async def opened(stack: Stack) -> AsyncIterator[tuple[Bus, RedisStore]]:
    content = stack.dev()
    settings = BusSettings.model_validate({"nats_url": content["nats_url"]})
    redis = RedisSettings.model_validate({"redis_url": content["redis_url"]})
    keys = Keys.of(settings.prefix, settings.stream_prefix)
    bus, store = Bus(settings), RedisStore(redis, keys, all_ranges(settings.event_streams))
    try:
        await bus.connect("benchmark")
        yield bus, store
    finally:
        await store.close()
        await bus.close()


@asynccontextmanager
async def connected(stack: Stack, base: str = _BASE) -> AsyncIterator[Client]:
    where = urlsplit(stack.gateways[0])

    async def ask(method: str, params: Json) -> tuple[float, Json]:
        connection = Connection(where.hostname or "", where.port or 80)
        try:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            exchange = await connection.ask(request(where.netloc, base, body))
        finally:
            connection.close()
        return exchange.seconds, JSON_RPC.result(orjson.loads(exchange.body))

    yield ask


@asynccontextmanager
async def _streaming(stack: Stack, ask: Client) -> AsyncIterator[Exchange]:
    """Stream a task that goes on all the time, until it is canceled at the end."""
    where = urlsplit(stack.gateways[0])
    connection = Connection(where.hostname or "", where.port or 80)
    body = JSON_RPC.streamed(where.netloc, _PACED, f"{10**9} {_PACE} 0")
    try:
        seen = await connection.begin(body)
        task = await task_of(seen)
        try:
            yield seen
        finally:
            await ask("CancelTask", {"id": task})
    finally:
        connection.close()


async def _events(seen: Exchange, until: "asyncio.Task[object]") -> float:
    """Return how many events come in a second until something is done."""
    first, begun = len(seen.pieces), time.perf_counter()
    await asyncio.wait([until])
    return b"".join(seen.pieces[first:]).count(b"\nid:") / (time.perf_counter() - begun)


async def _first_event(stack: Stack, task: str) -> float:
    """Return the seconds from a subscription to its first event."""
    where = urlsplit(stack.gateways[0])
    connection = Connection(where.hostname or "", where.port or 80)
    try:
        seen = await connection.begin(JSON_RPC.subscribed(where.netloc, _BASE, task))
        await eventually(lambda: _has_come(seen), "the first event", _TIMEOUT)
        return seen.arrivals[0] - seen.sent
    finally:
        connection.close()


async def _has_come(seen: Exchange) -> bool:
    return bool(seen.arrivals)


async def _begin(ask: Client) -> str:
    """Return a task that waits for its user."""
    _, answer = await ask("SendMessage", message("Ann"))
    assert answer["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", answer
    return str(answer["task"]["id"])


async def _is_listed(ask: Client, total: int) -> bool:
    try:
        return await _listed(ask) >= total
    except (ServerFailed, ValueError):
        # A list waits for the view, but not for long.
        return False


async def _listed(ask: Client) -> int:
    """Return how many tasks of the agent the view has."""
    _, found = await ask("ListTasks", {"pageSize": 1})
    return int(found["totalSize"])


async def rate_of_rebuild(bus: Bus, store: RedisStore, tasks: int) -> float:
    """Return the tasks/s of a rebuild, from when a replica began it to its end."""
    head = (await bus.js.stream_info(bus.streams.events(0))).state.last_seq
    place, begun = all_ranges(1), 0.0
    async with asyncio.timeout(_TIMEOUT):
        while True:
            if not begun and await store.reader.are_followed(place):
                begun = time.perf_counter()
            [at] = await store.reader.positions(place)
            if begun and at >= head:
                return tasks / (time.perf_counter() - begun)
            await asyncio.sleep(0.02)


async def _ask_meanwhile(
    stack: Stack,
    ask: Client,
    rebuilding: asyncio.Task[float],
    ended: list[str],
    requests: list[str],
) -> dict[str, list[float]]:
    """Ask for one thing after the other until the view is there; return what each took."""
    took: dict[str, list[float]] = {
        name: [] for name in ("get", "subscribe", "follow-up", "cancel")
    }
    answered, canceled = iter(requests[::2]), iter(requests[1::2])
    for number in itertools.count():
        if rebuilding.done():
            return took
        seconds, _ = await ask("GetTask", {"id": ended[number * 7919 % len(ended)]})
        took["get"].append(seconds)
        if (task := next(answered, None)) is not None:
            took["subscribe"].append(await _first_event(stack, task))
            params = message("Bob")
            params["message"]["taskId"] = task
            seconds, answer = await ask("SendMessage", params)
            assert answer["task"]["status"]["state"] == COMPLETED, answer
            took["follow-up"].append(seconds)
        if (task := next(canceled, None)) is not None:
            seconds, answer = await ask("CancelTask", {"id": task})
            assert answer["status"]["state"] == "TASK_STATE_CANCELED", answer
            took["cancel"].append(seconds)
    raise AssertionError
