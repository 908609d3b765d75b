"""What a delegation costs: a run behind a hop, behind two, beside the same run asked directly.

``python -m tests.benchmarks.delegation_hops`` prints a row; `make bench` has it too.
"""

import statistics
import tempfile
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import uvloop

from headrace import Agents, RunContext, agent
from headrace_task_state.main import TaskState
from headrace_task_state.settings import TaskStateSettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_submitter import TaskSubmitter, fresh_names, open_submitter

ROUNDS = 150
WARM_UP = 20


@agent()
async def leaf(_: RunContext) -> AsyncIterator[str]:
    """Says one word."""
    yield "word"


@agent()
async def hop(ctx: RunContext) -> AsyncIterator[str]:
    """Asks the leaf."""
    yield (await ctx.delegate("leaf", "x", relay=False)).text


@agent()
async def hops(ctx: RunContext) -> AsyncIterator[str]:
    """Asks who asks the leaf."""
    yield (await ctx.delegate("hop", "x", relay=False)).text


async def medians(nats_url: str, redis_url: str) -> dict[str, float]:
    """Return the median milliseconds of a run, by agent: as NATS has stored its input and end."""
    names = {"nats_url": nats_url, **fresh_names()}
    task_state = TaskState(TaskStateSettings.model_validate({**names, "redis_url": redis_url}))
    await task_state.start()
    settings = WorkerSettings.model_validate({**names, "drain_seconds": 0})
    workers = [Worker(settings, Agents([one])) for one in (leaf, hop, hops)]
    for worker in workers:
        await worker.start()
    try:
        async with open_submitter(settings) as submitter:
            return {name: await _median(submitter, name) for name in ("leaf", "hop", "hops")}
    finally:
        for worker in workers:
            await worker.stop()
        await task_state.stop()


async def _median(submitter: TaskSubmitter, name: str) -> float:
    took = []
    for _ in range(WARM_UP + ROUNDS):
        entries = await (await submitter.start(name, "x")).ended()
        first, last = (datetime.fromisoformat(entries[at].time) for at in (0, -1))
        took.append((last - first).total_seconds() * 1e3)
    return statistics.median(took[WARM_UP:])


def row(measured: dict[str, float]) -> str:
    """Return a line for people."""
    direct, one, two = (measured[name] for name in ("leaf", "hop", "hops"))
    return (
        f"delegation: direct {direct:.1f} ms, one hop {one:.1f} ms, two hops {two:.1f} ms:"
        f" {(two - direct) / 2:.1f} ms a hop"
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with NatsProcess(place / "nats") as nats, ValkeyProcess(place / "valkey") as valkey:
            measured = uvloop.run(medians(nats.url, valkey.url))
    print(row(measured))  # noqa: T201  # what this command is for


if __name__ == "__main__":
    main()
