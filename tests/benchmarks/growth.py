"""What a fleet holds while it works for a long time: nothing of it may grow.

A day has as many hours as any, but shorter ones: the settings that keep what is over for hours or
days keep it for one of these hours. What no setting shortens, such as the ten minutes for which
the usage of a deleted task is remembered, is not; so what stays flat is seen behind these.
"""

import asyncio
import itertools
import os
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace_task_state.store_redis.connection import Connection as Redis
from tests.benchmarks import agui_runs
from tests.benchmarks.bindings import JSON_RPC, REST, request
from tests.benchmarks.contestants import connection_to, host_of, pids_of
from tests.benchmarks.idle_runs import private_by_role
from tests.benchmarks.rebuild import opened
from tests.benchmarks.subscribers import task_of
from tests.benchmarks.whole import check_question, check_reply, check_stream
from tests.support.stack import Stack

_COUNTER, _ASKER, _PACED = (f"/v1/agents/{name}" for name in ("counter", "asker", "paced"))
_CHUNKS = 20
_SCAN = 1000
_SHOWN = 4
"""Moments of the day that are shown."""


@dataclass(frozen=True, slots=True)
class Day:
    """How long a day is, and what is asked for."""

    hours: int
    hour: float
    """Seconds."""
    pace: float
    """Tasks begun a second."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What keeps things for an hour that a fleet usually keeps for longer."""
        hour = f"{self.hour:.0f}"
        return {
            "HEADRACE_RETENTION": hour,
            "HEADRACE_WAITING_RETENTION": hour,
            "HEADRACE_TOMBSTONE_SECONDS": hour,
            "HEADRACE_IDEMPOTENCY_SECONDS": hour,
        }


async def lines(stack: Stack, day: Day) -> AsyncIterator[str]:
    """Work for a day; yield what the fleet holds in the course of it, and how that grows."""
    seen = list[Counter[str]]()
    async with opened(stack) as (bus, store):
        working = asyncio.create_task(_work(stack, day))
        begun = time.perf_counter()
        for hour in range(1, day.hours + 1):
            await asyncio.wait([working], timeout=begun + hour * day.hour - time.perf_counter())
            seen.append(await _held(stack, bus, store.redis))
            yield f"hour {hour}: {_said(seen[-1])}"
        done = await working
    yield f"{done:,} tasks in {day.hours} hours of {day.hour:.0f} s"
    for name in sorted(seen[-1]):
        yield f"{name}: {_growth([one[name] for one in seen])}"


def _said(held: Counter[str]) -> str:
    return ", ".join(f"{name} {held[name]:,}" for name in sorted(held))


def _growth(values: list[int]) -> str:
    """Return some values, and what the second half of the day adds in an hour."""
    places = [len(values) * number // _SHOWN - 1 for number in range(1, _SHOWN + 1)]
    shown = ", ".join(f"{values[max(0, at)]:,}" for at in places)
    half = values[len(values) // 2 :]
    slope, _ = statistics.linear_regression(range(len(half)), half) if len(half) > 1 else (0, 0)
    return f"{shown}; {slope:+,.1f} an hour"


async def _held(stack: Stack, bus: Bus, redis: Redis) -> Counter[str]:
    held = Counter[str]()
    for one in await bus.js.streams_info():
        held[f"messages of {one.config.name}"] = one.state.messages
        held["consumers"] += one.state.consumer_count
    async for key in _keys(redis):
        held[f"Redis keys, {_kind_of(key)}"] += 1
    for role, pids in pids_of(stack).items():
        held[f"threads of {role}"] = sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids)  # noqa: PTH208 - counted only
        held[f"files of {role}"] = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)  # noqa: PTH208
    for role, kilobytes in private_by_role(stack).items():
        held[f"KB of {role}"] = round(kilobytes)
    return held


def _kind_of(key: bytes) -> str:
    """Return what a key is for: usage outlives its task by ten minutes."""
    return "usage" if b":usage:" in key else "view"


async def _keys(redis: Redis) -> AsyncIterator[bytes]:
    cursor: bytes = b"0"
    while True:
        [[cursor, found]] = await redis.ask(["SCAN", cursor, "COUNT", _SCAN])
        for key in found:
            yield key
        if cursor in {b"0", 0}:
            return


async def _work(stack: Stack, day: Day) -> int:
    """Begin tasks of all kinds in turn, at the day's pace; return how many there were."""
    url, running = stack.gateways[0], set[asyncio.Task[None]]()
    kinds = itertools.cycle((_streamed, _awaited, _replied, _left, _canceled, _agui))
    begun, number = time.perf_counter(), round(day.hours * day.hour * day.pace)
    for at in range(number):
        await asyncio.sleep(begun + at / day.pace - time.perf_counter())
        one = asyncio.create_task(next(kinds)(url))
        running.add(one)
        one.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return number


async def _streamed(url: str) -> None:
    with closing(connection_to(url)) as client:
        done = await client.ask(JSON_RPC.streamed(host_of(url), _COUNTER, str(_CHUNKS)))
    check_stream(done.body, _CHUNKS, JSON_RPC.result)


async def _awaited(url: str) -> None:
    with closing(connection_to(url)) as client:
        await client.ask(REST.awaited(host_of(url), _COUNTER, "1"))


async def _replied(url: str) -> None:
    with closing(connection_to(url)) as client:
        task = await _asked(url)
        done = await client.ask(JSON_RPC.replied(host_of(url), _ASKER, "Bob", task))
    check_reply(done.body, task, JSON_RPC.result)


async def _left(url: str) -> None:
    """Begin a task that nobody answers: it is canceled when it has waited for an hour."""
    await _asked(url)


async def _asked(url: str) -> str:
    with closing(connection_to(url)) as client:
        done = await client.ask(JSON_RPC.awaited(host_of(url), _ASKER, "Ann"))
    return check_question(done.body, JSON_RPC.result)


async def _canceled(url: str) -> None:
    with closing(connection_to(url)) as client, closing(connection_to(url)) as other:
        seen = await client.begin(JSON_RPC.streamed(host_of(url), _PACED, "2 3600000 0"))
        path = f"{_PACED}/tasks/{await task_of(seen)}:cancel"
        await other.ask(request(host_of(url), path, {}))
        await client.end()


async def _agui(url: str) -> None:
    with closing(connection_to(url)) as client:
        run_input = agui_runs.input_of(agui_runs.new_thread(), [str(_CHUNKS)])
        path = f"{_COUNTER}/ag-ui"
        done = await client.ask(request(host_of(url), path, run_input, "text/event-stream"))
    agui_runs.check_events(done.body, _CHUNKS)
