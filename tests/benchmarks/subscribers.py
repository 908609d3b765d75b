"""One task that many follow: how fast it reaches them, and what they cost while it is silent."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from tests.benchmarks.bindings import request
from tests.benchmarks.contestants import connection_to, host_of
from tests.benchmarks.http_client import Connection, Exchange, ServerFailed
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.processor_time import seconds_of
from tests.benchmarks.whole import Broken, check_stream
from tests.support.waiting import eventually

_TASK_ID = re.compile(rb'"task":\s*\{\s*"id":\s*"([^"]+)"')
_FIRST = re.compile(rb'"text":\s*"1 (\d+) "')
_AT_ONCE = 200
_TIMEOUT = 60.0
_LONGEST_HOLD = 20_000
_NEVER = 600_000
"""Milliseconds: longer than anybody is measured."""

_IDLE_TASKS = 4


async def hundred(place: Place) -> Sample:
    """Events per second delivered to 100 subscribers of one task, all of them together."""
    few = partial(_delivered, place, place.sizes.few_subscribers)
    return await in_time(few, place.sizes.hold)


async def thousand(place: Place) -> Sample:
    """The same with ten times as many."""
    many = partial(_delivered, place, place.sizes.many_subscribers)
    return await in_time(many, 3 * place.sizes.hold)


async def in_time(measured: Callable[[int], Awaitable[Sample]], hold: int) -> Sample:
    """Measure with tasks that are held for `hold` ms; if that is too short, for longer."""
    while True:
        try:
            return await measured(hold)
        except (Broken, ServerFailed):  # Some came when it had begun, or was over.
            if hold > _LONGEST_HOLD:
                raise
            hold *= 4


async def _delivered(place: Place, subscribers: int, hold: int) -> Sample:
    chunks = place.sizes.subscribers[place.contestant.name] * place.sizes.few_subscribers
    chunks = max(1, chunks // subscribers)
    async with asyncio.timeout(_TIMEOUT + hold / 1000):
        with ExitStack() as open_:
            owner = open_.enter_context(closing(connection_to(place.contestant.urls[0])))
            task = await task_of(await owner.begin(place.paced(chunks, 0, hold)))
            lent = open_.enter_context(place.contestant.connections(subscribers))
            await _follow(lent, [place.subscribed(task)])
            exchanges = await asyncio.gather(*(connection.end() for connection in lent))
            await owner.end()
    for one in exchanges:
        check_stream(one.body, chunks, place.binding.result)
    # From the agent's first word on: what comes to the client late does not make it faster.
    seconds = max(one.ended for one in exchanges) - _first_word(exchanges[0])
    return Sample(chunks * subscribers / seconds, chunks * subscribers)


async def task_of(exchange: Exchange) -> str:
    """Return the id of the task that a stream begins with, once it is there."""
    await eventually(lambda: _begun(exchange), "the stream has begun")
    found = _TASK_ID.search(exchange.body)
    if found is None:
        raise Broken(f"begins with no Task: {exchange.body[:200]!r}")
    return found[1].decode()


async def _begun(*exchanges: Exchange) -> bool:
    return all(exchange.pieces for exchange in exchanges)


async def _follow(connections: Iterable[Connection], requests: list[bytes]) -> list[Exchange]:
    """Subscribe with every connection; return when each has got its Task."""
    exchanges, waiting = list[Exchange](), list(connections)
    for first in range(0, len(waiting), _AT_ONCE):
        batch = [
            await connection.begin(requests[at % len(requests)])
            for at, connection in enumerate(waiting[first : first + _AT_ONCE])
        ]
        await eventually(partial(_begun, *batch), "all have subscribed")
        exchanges += batch
    if any(b'"artifactUpdate"' in exchange.body for exchange in exchanges):
        raise Broken("the task began before all had subscribed: its hold is too short")
    return exchanges


def _first_word(exchange: Exchange) -> float:
    """Return when the agent said its first chunk, by this process's `time.perf_counter`."""
    found = _FIRST.search(exchange.body)
    if found is None:
        raise Broken("no chunk came")
    return int(found[1]) / 1e9 - (time.time() - time.perf_counter())


async def idle(place: Place) -> Sample:
    """Kilobytes that a new gateway needs for each of many subscribers to tasks that are silent."""
    count = place.sizes.idle_subscribers
    async with asyncio.timeout(2 * _TIMEOUT):
        with ExitStack() as open_:
            owners = open_.enter_context(place.contestant.connections(_IDLE_TASKS))
            begun = [await owner.begin(place.paced(1, 0, _NEVER)) for owner in owners]
            tasks = [await task_of(exchange) for exchange in begun]
            url, pid = await asyncio.to_thread(open_.enter_context, place.contestant.another())
            lent = [open_.enter_context(closing(connection_to(url))) for _ in range(count)]
            before = _resident(pid)
            exchanges = await _follow(lent, [place.subscribed(task, url) for task in tasks])
            grown = _resident(pid) - before
            details = await _share(pid, place.sizes.idle_seconds)
            await _cancel(place, tasks)
            await asyncio.gather(*(connection.end() for connection in lent))
    if not all(b"TASK_STATE_CANCELED" in exchange.body for exchange in exchanges):
        raise Broken("a subscriber did not get the end of its task")
    return Sample(grown / count / 1000, count, details)


async def _share(pid: int, seconds: float) -> dict[str, float]:
    """Return how much of a core a process takes for a while, percent; nothing in no time."""
    if not seconds:
        return {}
    before = seconds_of({"": [pid]})[""]
    await asyncio.sleep(seconds)
    return {"percent of a core": 100 * (seconds_of({"": [pid]})[""] - before) / seconds}


async def _cancel(place: Place, tasks: list[str]) -> None:
    url = place.contestant.urls[0]
    with closing(connection_to(url)) as connection:
        for task in tasks:
            path = f"{place.contestant.paced}/tasks/{task}:cancel"
            await connection.ask(request(host_of(url), path, {}))


def _resident(pid: int) -> int:
    """Return what a process has in memory, bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024
