"""What requests, upkeep and restarts take beside many tasks: all logs are in NATS, too."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace.model.messages import FindTasks, ListTasks
from headrace.model.task import COMPLETED, FAILED
from headrace.state_client import StateClient
from headrace_cli.dev.dev_file import Role
from headrace_task_state.store_redis.store import RedisStore
from tests.benchmarks.bindings import message
from tests.benchmarks.contestants import pids_of
from tests.benchmarks.filling import ShortTasks, store
from tests.benchmarks.idle_runs import private_by_role
from tests.benchmarks.processor_time import seconds_of
from tests.benchmarks.rebuild import Client, connected, opened, rate_of_rebuild
from tests.benchmarks.runs import p99
from tests.support.stack import Stack
from tests.support.waiting import eventually

_OWNER = "anonymous"
"""Whose requests are, without authentication."""
_AGENT = "asker"
_AGENTS = (_AGENT, "counter", "paced")
_ALL: Json = {"owner": "", "any_owner": True}
_TIMEOUT = 900.0

_LOOK = 0.2

ROLES: Sequence[Role] = ("task-state", "gateway", "redis", "nats")
"""Whose processes can be killed."""

_LISTS: dict[str, Json] = {
    "of an owner and agent": {"agents": [_AGENT]},
    "of an owner, all agents": {},
    "by state": {"states": [FAILED]},
    "by context": {"context": "context-0000000000", **_ALL},
    "with artifacts": {"include_artifacts": True},
    "of an owner with five tasks": {"owner": "few"},
    "an operator's": _ALL,
    "an operator's by state": {**_ALL, "states": [FAILED]},
}


@dataclass(frozen=True, slots=True)
class Size:
    """How many tasks, and how often each thing is asked for."""

    tasks: int
    owners: int
    requests: int
    """Of each kind."""
    lost: int
    """Tasks whose gateway was killed before it requested their runs."""
    seconds: float
    """For which retention is watched."""
    killed: Sequence[Role]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The stack, and the ways to ask it."""

    stack: Stack
    bus: Bus
    store: RedisStore
    ask: Client
    state: StateClient

    async def listed(self) -> int:
        """Return how many tasks there are by an operator's list; -1: nobody knows now."""
        query = ListTasks(tenant="default", owner="", any_owner=True, page_size=1)
        with suppress(HeadraceError):
            return (await self.state.list(query)).total_size
        return -1

    async def until_listed(self, tasks: int) -> None:
        """Return when lists have that many tasks."""

        async def is_whole() -> bool:
            return await self.listed() == tasks

        await eventually(is_whole, f"{tasks} tasks are listed", _TIMEOUT)


async def lines(stack: Stack, size: Size) -> AsyncIterator[str]:
    """Fill a fleet, and measure; yield what was measured, a line at a time."""
    async with opened(stack) as (bus, view), connected(stack) as ask:
        fleet = Fleet(stack, bus, view, ask, StateClient(bus))
        waiting = [await _begin(fleet) for _ in range(size.requests)]
        tasks = ShortTasks(bus.subjects, _AGENTS, _OWNER, size.owners)
        async for line in _filled(fleet, tasks, size.tasks, len(waiting)):
            yield line
        total = size.tasks + len(waiting)
        ended = [key.task for key in tasks.owned if key.agent == _AGENT]
        async for line in _asked(fleet, size.requests, ended, waiting):
            yield line
        yield await _swept(fleet, tasks, size.lost)
        total += size.lost
        async for line in _restarted(fleet, size.killed, total):
            yield line
        yield await _rebuilt(fleet, total)
        async for line in _listed(fleet, size.requests, " of summaries"):
            yield line
        async for line in _erased(fleet, total, size.seconds):
            yield line


async def _begin(fleet: Fleet) -> str:
    """Return a task that waits for its user, older than all others."""
    _, answer = await fleet.ask("SendMessage", message("Ann"))
    return str(answer["task"]["id"])


async def _filled(fleet: Fleet, tasks: ShortTasks, number: int, already: int) -> AsyncIterator[str]:
    await fleet.until_listed(already)
    memory, redis = private_by_role(fleet.stack), await _redis(fleet)
    stored = await _bytes(fleet)
    seconds, begun = seconds_of(pids_of(fleet.stack)), time.perf_counter()
    await store(fleet.stack.dev()["nats_url"], tasks.logs(number))
    took = time.perf_counter() - begun
    yield f"{number:,} logs stored in {took:.0f} s, {number / took:,.0f} a second"
    await fleet.until_listed(already + number)
    took = time.perf_counter() - begun
    yield f"applied meanwhile, {number / took:,.0f} a second"
    yield _each("processor time of a log", "us", 1e6, number, _since(fleet, seconds))
    size, keys = (now - was for now, was in zip(await _redis(fleet), redis, strict=True))
    yield f"a task takes {(await _bytes(fleet) - stored) / number:,.0f} bytes of EVENTS"
    yield f"a task takes {size / number:,.0f} bytes of Redis, in {keys / number:.2f} keys"
    grown = {role: now - memory[role] for role, now in private_by_role(fleet.stack).items()}
    yield _each("private memory of a task", "bytes", 1000, number, grown)


async def _redis(fleet: Fleet) -> tuple[int, int]:
    """Return the bytes and the keys of Redis."""
    [keys] = await fleet.store.redis.ask(["DBSIZE"])
    return (await fleet.store.memory()).used, keys


async def _bytes(fleet: Fleet) -> int:
    return int((await fleet.bus.js.stream_info(fleet.bus.streams.events(0))).state.bytes)


async def _asked(
    fleet: Fleet, requests: int, ended: list[str], waiting: list[str]
) -> AsyncIterator[str]:
    # Enough for tiny sizes, too.
    newest, any_age = ended[-requests:] * requests, ended[:: len(ended) // requests or 1] * requests
    for name, some in ("the newest tasks", iter(newest)), ("tasks of any age", iter(any_age)):
        yield await _timed(fleet, f"GetTask of {name}", requests, lambda: _get(fleet, next(some)))  # noqa: B023 - used at once
    async for line in _listed(fleet, requests):
        yield line
    left = iter(waiting)
    answered = len(waiting) - 1
    yield await _timed(fleet, "a follow-up", answered, lambda: _answer(fleet, next(left)))


async def _listed(fleet: Fleet, requests: int, of: str = "") -> AsyncIterator[str]:
    for name, chosen in _LISTS.items():
        query = ListTasks.model_validate({"tenant": "default", "owner": _OWNER, **chosen})
        yield await _timed(fleet, f"list{of} {name}", requests, partial(_page, fleet, query))
    for text in ("", "no such word"):
        rows = FindTasks(tenant="default", owner="", any_owner=True, text=text)
        name = f"rows{of} with counts by state" + (", searched" if text else "")
        yield await _timed(fleet, name, min(requests, 10), partial(_rows, fleet, rows))


async def _get(fleet: Fleet, task: str) -> float:
    seconds, _ = await fleet.ask("GetTask", {"id": task})
    return seconds


async def _answer(fleet: Fleet, task: str) -> float:
    params = message("Bob")
    params["message"]["taskId"] = task
    seconds, answer = await fleet.ask("SendMessage", params)
    assert answer["task"]["status"]["state"] == COMPLETED, answer
    return seconds


async def _page(fleet: Fleet, query: ListTasks) -> float:
    begun = time.perf_counter()
    await fleet.state.list(query)
    return time.perf_counter() - begun


async def _rows(fleet: Fleet, query: FindTasks) -> float:
    begun = time.perf_counter()
    await fleet.state.find(query)
    return time.perf_counter() - begun


async def _timed(fleet: Fleet, name: str, number: int, take: Callable[[], Awaitable[float]]) -> str:
    before = seconds_of(pids_of(fleet.stack))
    try:
        took = [await take() * 1000 for _ in range(number)]
    except HeadraceError as error:
        return f"{name}: {error}"
    spent = _since(fleet, before)
    times = f"p50 {statistics.median(took):.1f} ms, p99 {p99(took):.1f} ms"
    return f"{_each(name, 'ms', 1000, number, spent)}; {times}"


def _since(fleet: Fleet, before: dict[str, float]) -> dict[str, float]:
    now = seconds_of(pids_of(fleet.stack))
    return {role: now[role] - before[role] for role in now}


def _each(what: str, unit: str, factor: float, number: int, by_role: dict[str, float]) -> str:
    each = {role: value * factor / number for role, value in by_role.items()}
    roles = ", ".join(f"{role} {value:,.2f}" for role, value in each.items())
    return f"{what}: {sum(each.values()):,.2f} {unit} ({roles})"


async def _swept(fleet: Fleet, tasks: ShortTasks, number: int) -> str:
    """Begin tasks whose gateway dies before it requests their runs."""
    url, begun = fleet.stack.dev()["nats_url"], time.perf_counter()
    await store(url, tasks.inputs(number))
    before = seconds_of(pids_of(fleet.stack))

    async def are_over() -> bool:
        query = ListTasks(tenant="default", owner="swept", states=[COMPLETED], page_size=1)
        return (await fleet.state.list(query)).total_size == number

    await eventually(are_over, "all swept tasks are over", _TIMEOUT)
    took = time.perf_counter() - begun
    spent = _each("processor time of each", "ms", 1000, number, _since(fleet, before))
    return f"{number} inputs without a run request are over after {took:.1f} s; {spent}"


async def _restarted(fleet: Fleet, roles: Sequence[Role], total: int) -> AsyncIterator[str]:
    for role in roles:
        killed = fleet.stack.kill(role)
        begun = time.perf_counter()
        await asyncio.to_thread(fleet.stack.until_restarted, role, 0, killed)
        back = time.perf_counter() - begun
        await fleet.until_listed(total)
        took = time.perf_counter() - begun
        spent = seconds_of(pids_of(fleet.stack))[role]
        yield (
            f"{role} killed: another process after {back:.1f} s, all is listed after {took:.1f} s, "
            f"{spent:.1f} s of its processor time"
        )


async def _rebuilt(fleet: Fleet, total: int) -> str:
    before = seconds_of(pids_of(fleet.stack))
    begun = time.perf_counter()
    # All at once, as Redis loses it.
    await fleet.store.redis.ask(["FLUSHALL", "ASYNC"])
    rate = await rate_of_rebuild(fleet.bus, fleet.store, total)
    await fleet.until_listed(total)
    took = time.perf_counter() - begun
    spent = _each("processor time of each", "us", 1e6, total, _since(fleet, before))
    return f"view lost: {rate:,.0f} tasks/s, all is listed after {took:.0f} s; {spent}"


async def _erased(fleet: Fleet, total: int, seconds: float) -> AsyncIterator[str]:
    """Have all tasks expire at once, and look on for some seconds."""
    await asyncio.to_thread(_keep_for, fleet.stack, 1)
    before, took, erased = seconds_of(pids_of(fleet.stack)), list[float](), 0
    begun = time.perf_counter()
    while (lasted := time.perf_counter() - begun) < seconds or not erased:
        asked = time.perf_counter()
        if (left := await fleet.listed()) >= 0:
            took.append((time.perf_counter() - asked) * 1000)
            erased = total - left
        await asyncio.sleep(_LOOK)
    spent = _each("processor time of each", "us", 1e6, erased, _since(fleet, before))
    yield f"all expire: {erased / lasted:,.0f} tasks/s erased; {spent}"
    yield f"a list meanwhile: p50 {statistics.median(took):.1f} ms, p99 {p99(took):.1f} ms"


def _keep_for(stack: Stack, seconds: int) -> None:
    """Have ended tasks kept for that long, by all that task state does from now on."""
    environment = stack.environment | {
        "HEADRACE_NATS_URL": stack.dev()["nats_url"],
        "HEADRACE_RETENTION": str(seconds),
    }
    command = [sys.executable, "-m", "headrace_cli", "streams", "apply", "--shrink"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    stack.until_restarted("task-state", 0, stack.kill("task-state"))
