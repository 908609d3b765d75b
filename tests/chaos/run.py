"""A run: a stack, its clients, what is done to it, and the verdict."""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from headrace.jetstream.connection import Bus
from headrace.log import last_entry
from headrace.model.task import TaskKey
from headrace.settings import BusSettings
from headrace_cli.dev_ready import until_ready
from headrace_task_state.ranges import all_ranges
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.keys import Keys
from headrace_task_state.store_redis.reading import Reader
from headrace_task_state.store_redis.settings import RedisSettings
from tests.chaos.client import ENDED, Client
from tests.chaos.faults import Tormentor, plan
from tests.chaos.verdict import Judge
from tests.support.compose_file import ROOT
from tests.support.stack import Stack
from tests.support.waiting import eventually

_log = logging.getLogger(__name__)

_SETTLES = 180.0
"""Seconds that clients have to see their tasks end once nothing is done to the stack any more."""

_JUDGED_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it."""

    seed: int
    tasks: int
    at_a_time: int
    faults: int | None = None
    """So many, and tasks begin until the last is done; None: as many as there is time for.

    A count, for on a slow machine processes that die by the clock would never come to work.
    """


@dataclass(slots=True)
class Outcome:
    """What came of a run."""

    faults: Counter[str] = field(default_factory=Counter[str])
    ends: Counter[str] = field(default_factory=Counter[str])
    events: int = 0
    connections: int = 0
    further_attempts: int = 0
    orphans: int = 0
    children: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def stack_in(folder: Path) -> Stack:
    """Return the stack that a run is made on."""
    return Stack(
        folder,
        gateways=2,
        workers=4,
        task_states=2,
        agents="tests.chaos.agents:agents",
        environment={"PYTHONPATH": str(ROOT)},
    )


async def run(stack: Stack, size: Size) -> Outcome:
    """Let clients work with `stack` while it is tormented, then judge."""
    outcome, begun = Outcome(), time.monotonic()
    tormentor = Tormentor(stack)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    async with httpx.AsyncClient(limits=limits) as http:
        crowd = Crowd(http, stack.gateways, size)
        faults = itertools.islice(plan(size.seed), size.faults)
        tormenting = asyncio.create_task(tormentor.torment(faults))
        try:
            await crowd.work(lambda: size.faults is None or tormenting.done())
        finally:
            tormenting.cancel()
            tormentor.leave_in_peace()
        outcome.wrong += await crowd.settle()
    outcome.seconds, outcome.faults = time.monotonic() - begun, tormentor.done
    await until_ready(stack.gateways, with_agents=True, timeout=60)
    await _judge(stack, crowd.clients, outcome)
    return outcome


class Crowd:
    """Clients, some at a time."""

    def __init__(self, http: httpx.AsyncClient, gateways: list[str], size: Size) -> None:
        """Nobody yet."""
        self.clients: list[Client] = []
        self._http, self._gateways, self._size = http, gateways, size
        self._following: set[asyncio.Task[None]] = set()
        self._wrong: list[str] = []

    async def work(self, is_enough: Callable[[], bool]) -> None:
        """Start all of them, the next as soon as one is done; return when the last has begun.

        Others follow them as long as it is not enough.
        """
        while len(self.clients) < self._size.tasks or not is_enough():
            if len(self._following) >= self._size.at_a_time:
                await asyncio.wait(self._following, return_when=asyncio.FIRST_COMPLETED)
            self._begin()
            if len(self.clients) % 500 == 0:
                _log.warning("%d tasks begun", len(self.clients))

    async def settle(self) -> list[str]:
        """Return what went wrong, once all have seen their tasks end, or too much time is up."""
        if self._following:
            await asyncio.wait(self._following, timeout=_SETTLES)
        for task in list(self._following):
            task.cancel()
        left = [client for client in self.clients if client.state not in ENDED]
        return self._wrong + [
            f"{client.agent} {client.task or '(no id)'}: its client waits at {client.state!r}"
            for client in left
        ]

    def _begin(self) -> None:
        client = Client(self._http, self._gateways, self._size.seed, len(self.clients))
        self.clients.append(client)
        task = asyncio.create_task(client.follow())
        self._following.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._following.discard(task)
        if not task.cancelled() and (error := task.exception()):
            causes = error.exceptions if isinstance(error, ExceptionGroup) else [error]
            self._wrong += [f"{type(cause).__name__}: {cause}" for cause in causes]


async def _judge(stack: Stack, clients: list[Client], outcome: Outcome) -> None:
    followed = [client for client in clients if client.state in ENDED]
    outcome.ends = Counter(client.state or "?" for client in clients)
    outcome.events = sum(len(client.seen) for client in clients)
    outcome.connections = sum(client.connections for client in clients)
    async with _looking_into(stack) as (bus, redis):
        judge = Judge(bus, redis)
        known = {client.task for client in clients}
        orphans = [key for key in await _keys(bus) if key.task not in known]
        await _have_ended(bus, orphans)
        places = asyncio.Semaphore(_JUDGED_AT_A_TIME)

        async def one(verdict: Coroutine[Any, Any, list[str]]) -> None:
            async with places:
                outcome.wrong += await verdict

        async with asyncio.TaskGroup() as group:
            for client in followed:
                group.create_task(one(judge.of_client(client)))
            for key in orphans:
                group.create_task(one(judge.of_orphan(key)))
        outcome.wrong += judge.families.wrong()
    outcome.further_attempts = judge.attempts
    outcome.children = judge.families.size
    outcome.orphans = len(orphans) - outcome.children


async def _have_ended(bus: Bus, keys: list[TaskKey]) -> None:
    """Give tasks that nobody wants any more the time that task state takes to see to it."""
    left = keys
    async with asyncio.timeout(_SETTLES):
        while left:
            lasts = [(key, await last_entry(bus, key)) for key in left]
            left = [key for key, last in lasts if last is not None and not last.ends_leg]
            await asyncio.sleep(bool(left))


@asynccontextmanager
async def _looking_into(stack: Stack) -> AsyncIterator[tuple[Bus, Reader]]:
    content = stack.dev()
    settings = BusSettings.model_validate({"nats_url": content["nats_url"]})
    bus, redis = (
        Bus(settings),
        Connection(RedisSettings.model_validate({"redis_url": content["redis_url"]})),
    )
    reader = Reader(redis, Keys.of(settings.prefix, settings.stream_prefix))
    try:
        await bus.dial("chaos")
        ranges = all_ranges(settings.event_streams)
        head = (await bus.js.stream_info(bus.streams.events(0))).state.last_seq

        async def has_followed() -> bool:
            return min(await reader.positions(ranges)) >= head

        await eventually(has_followed, "task state has applied all there is", _SETTLES)
        yield bus, reader
    finally:
        await redis.close()
        await bus.close()


async def _keys(bus: Bus) -> list[TaskKey]:
    found = await bus.js.stream_info(bus.streams.events(0), subjects_filter=">")
    return [bus.subjects.key_of_event(subject) for subject in found.state.subjects or {}]
