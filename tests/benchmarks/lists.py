"""What a page of a list takes in a large view: ``python -m tests.benchmarks.lists --tasks 10000``.

The view is filled by task state's own writer, without logs. Half of the tasks are one owner's, five
another's, and the rest are shared by many owners.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.model.events import Json
from headrace.model.messages import ListTasks
from headrace.model.task import CANCELED, COMPLETED, FAILED, TaskKey, mint_task_id
from headrace_task_state.queries.get import read_found
from headrace_task_state.store import After, Progress, Range, TaskChange, all_ranges
from headrace_task_state.store_redis.settings import RedisSettings
from headrace_task_state.store_redis.store import Keys, RedisStore
from headrace_task_state.usage import START, UsageRecord
from tests.support.servers import ValkeyProcess

_BATCH = 500
_PAGES = 50
_FIRST = 1_700_000_000_000_000
"""Time of the oldest status, us since 1970; each task's is 1 ms later than the one before."""

_STATES = (COMPLETED,) * 8 + (FAILED, CANCELED)

_OPERATOR: Json = {"owner": "", "any_owner": True}
_CONTEXT: Json = {"context": "context-00000000-1111-4222-8333-000000000001"}

_LISTS: dict[str, Json] = {
    "an owner's": {},
    "of all agents": {"agent": None},
    "by state": {"status": FAILED},
    "by context": _CONTEXT,
    "by context and state": {**_CONTEXT, "status": COMPLETED},
    "with artifacts": {"include_artifacts": True},
    "without messages": {"history_length": 0},
    "of an owner with five tasks": {"owner": "few", "agent": None},
    "an operator's": _OPERATOR,
    "an operator's of all agents": {**_OPERATOR, "agent": None},
    "an operator's by state": {**_OPERATOR, "status": FAILED},
    "an operator's by context": {**_OPERATOR, **_CONTEXT},
}


@dataclass(frozen=True, slots=True)
class View:
    """A filled view."""

    store: RedisStore
    tasks: int

    async def processor_time(self) -> float:
        """Return the processor time of Redis, seconds."""
        [found] = await self.store.redis.ask(["INFO", "cpu"])
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    async def page(self, chosen: Json, depth: float) -> str:
        """Return what a page takes that begins after that part of all tasks."""
        terms = {"tenant": "default", "owner": "big", "agent": "agent1", **chosen}
        query = ListTasks.model_validate(terms)
        begins_at = _FIRST + round(self.tasks * (1 - depth)) * 1000
        after = After(begins_at, "z") if depth else None
        before, ours = await self.processor_time(), time.process_time()
        tasks = total = 0
        took = list[float]()
        for _ in range(_PAGES):
            begun = time.perf_counter()
            page = await self.store.reader.page(query, 0, after, {Range(0): 0})
            tasks, total = len(page.tasks), page.total
            for stored in page.tasks:
                read_found(stored).fold.task(
                    query.history_length, include_artifacts=query.include_artifacts
                )
            took.append((time.perf_counter() - begun) * 1000)
        ours = (time.process_time() - ours) / _PAGES
        redis = (await self.processor_time() - before) / _PAGES
        return (
            f"{tasks:3} of {total:8}: Redis {redis * 1000:5.2f} ms, "
            f"task state {ours * 1000:5.2f} ms, in all p50 {statistics.median(took):6.2f} ms, "
            f"p99 {statistics.quantiles(took, n=100, method='inclusive')[98]:6.2f} ms"
        )


def _task(number: int, owner: str, state: str) -> TaskChange:
    """Return a short task that has ended."""
    key = TaskKey("default", f"agent{number % 4}", mint_task_id(number % 16))
    context = f"context-00000000-1111-4222-8333-{number // 20:012x}"
    at = _FIRST + number * 1000
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at / 1_000_000))
    change = TaskChange(key, "abcdefgh", begins=True, owner=owner, context=context, state=state)
    change.time, change.ended = at, at // 1000
    change.fields = {
        "log": "abcdefgh",
        "agent": key.agent,
        "owner": owner,
        "context": context,
        "generation": "5",
        "sequence": str(number * 3 + 3),
        "run": "1",
        "state": state,
        "status_generation": "5",
        "submitted": str(at // 1000),
        "priority": "normal",
        "status": f'{{"state":"{state}","timestamp":"{stamp}.000Z"}}',
    }
    message = {"messageId": f"{number:032x}", "role": "ROLE_USER", "parts": [{"text": "Well?"}]}
    answer = {"artifactId": "answer", "parts": [{"text": "There is nothing to say."}]}
    change.history, change.artifacts = [[0, "in", message]], [[3, "new", answer]]
    change.usage = [UsageRecord(3, START, at // 1000, "2023-11-14")]
    return change


async def _fill(store: RedisStore, tasks: int, owners: int) -> None:
    chance = random.Random(1)
    others = [f"owner{number}" for number in range(owners)]
    [place], progress = all_ranges(1), Progress()
    leases = store.leases("benchmark")
    for first in range(0, tasks, _BATCH):
        # Anew for each batch, because filling may take longer than a lease lasts.
        lease = await leases.acquire(place)
        assert lease is not None
        then = Progress(position=first + _BATCH)
        changes = [
            _task(
                number,
                "few" if number < 5 else "big" if number % 8 < 4 else chance.choice(others),
                chance.choice(_STATES),
            )
            for number in range(first, min(first + _BATCH, tasks))
        ]
        await store.writer(lease).apply(progress, then, changes)
        await leases.release([lease])
        progress = then


@asynccontextmanager
async def _filled(tasks: int, owners: int) -> AsyncIterator[View]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server = ValkeyProcess(Path(folder)).start()
        settings = RedisSettings.model_validate({"redis_url": server.url})
        store = RedisStore(settings, Keys.of("headrace", ""), all_ranges(1))
        try:
            # Its rewrites of the file would hold up the filling for seconds.
            await store.redis.ask(["CONFIG", "SET", "appendonly", "no"])
            before = (await store.memory()).used
            await _fill(store, tasks, owners)
            size = ((await store.memory()).used - before) / tasks
            [keys] = await store.redis.ask(["DBSIZE"])
            each = f"{size:.0f} bytes and {keys / tasks:.1f} keys each"
            sys.stdout.write(f"{tasks} tasks of {owners} owners: {each}\n")
            yield View(store, tasks)
        finally:
            await store.close()
            server.stop()


async def measure(tasks: int, owners: int) -> None:
    """Fill a view and print what a page of each list takes, at its beginning and in its middle."""
    async with _filled(tasks, owners) as view:
        for name, chosen in _LISTS.items():
            for where, depth in (("", 0.0), (", from the middle", 0.5)):
                sys.stdout.write(f"{name + where:50} {await view.page(chosen, depth)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lists", description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000, metavar="N")
    parser.add_argument("--owners", type=int, default=10_000, metavar="N")
    asked = parser.parse_args()
    asyncio.run(measure(asked.tasks, asked.owners))
