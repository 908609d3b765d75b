"""What a step costs: ``python -m tests.benchmarks.steps``.

One run at a time, on a stack that has nothing else to do: an agent that does steps one after the
other, beside the same agent that emits and waits for the log, which is what a step is made of.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from headrace import Agents, RunContext, agent
from headrace.settings import BusSettings
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, fresh_names, open_submitter

STEPS = 500
ROUNDS = 5

taken = list[float]()
"""Seconds of each step of the last run."""


@agent()
async def stepper(ctx: RunContext) -> None:
    """Does steps, and notes how long each took."""
    taken.clear()
    for number in range(STEPS):
        began = time.perf_counter()
        await ctx.step("add", lambda a, b: a + b, number, 1)
        taken.append(time.perf_counter() - began)


@agent()
async def saver(ctx: RunContext) -> None:
    """Saves as many checkpoints, each of which is an append that is waited for."""
    taken.clear()
    for number in range(STEPS):
        began = time.perf_counter()
        await ctx.checkpoint(number)
        taken.append(time.perf_counter() - began)


async def _measured(task: Task) -> tuple[list[float], float]:
    """Return the times of a run's steps, and how many messages each added to the log."""
    entries = await task.ended()
    assert len(taken) == STEPS
    # The input, the claim and the end are no steps.
    return sorted(taken), (len(entries) - 3) / STEPS


async def _measure(folder: Path, interval: str) -> list[str]:
    names, lines = fresh_names(), list[str]()
    with NatsProcess(folder, sync_interval=interval) as server:
        given = {"nats_url": server.url, "drain_seconds": 0, **names}
        worker = Worker(WorkerSettings.model_validate(given), Agents([stepper, saver]))
        settings = BusSettings.model_validate({"nats_url": server.url, **names})
        async with open_submitter(settings) as submitter:
            await worker.start()
            for kind, name in (("stepper", "a step"), ("saver", "a checkpoint")):
                medians, late, messages, spent = list[float](), list[float](), 0.0, list[float]()
                for _ in range(ROUNDS):
                    before = time.process_time()
                    times, messages = await _measured(await submitter.start(kind))
                    spent.append((time.process_time() - before) / STEPS * 1e3)
                    medians.append(statistics.median(times) * 1e3)
                    late.append(times[int(STEPS * 0.99)] * 1e3)
                lines.append(
                    f"{name}, NATS {'syncs each write' if interval else 'as it is'}:"
                    f" {statistics.median(medians):.2f} ms at the median"
                    f" ({min(medians):.2f} to {max(medians):.2f}),"
                    f" {statistics.median(late):.2f} ms at the 99th percentile,"
                    f" {messages:.2f} messages,"
                    f" {statistics.median(spent):.2f} ms of this process"
                )
            await worker.stop()
    return lines


async def main() -> None:
    """Measure, and print a line for each."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for name, interval in {"synced": "always", "unsynced": ""}.items():
            place = Path(folder) / name
            place.mkdir()
            for line in await _measure(place, interval):
                sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    uvloop.run(main())
