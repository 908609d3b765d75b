"""Measure what a fleet takes when there is much of something: ``python -m tests.benchmarks.scale``.

docs/design/scale.md has the figures.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import uvloop

from tests.benchmarks import contestants, growth, many_tasks, pace, rounds, runs, subscribers
from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import Contestant, measured_stack
from tests.benchmarks.measure import COST, Measure
from tests.benchmarks.report import machine
from tests.benchmarks.rounds import Result
from tests.benchmarks.sizes import FULL, SMALL, TINY, Sizes
from tests.benchmarks.tables import circumstances
from tests.support.stack import Stack

_LIMIT = {"HEADRACE_CONCURRENCY": "2000"}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of each thing there is."""

    processes: Sizes
    rounds: int
    streams: Sizes
    subscribers: Sizes
    tasks: many_tasks.Size
    day: growth.Day


LARGE = Size(
    processes=SMALL,
    rounds=5,
    streams=replace(FULL, paced_streams=1000, token_pace=200, paced_tokens=50),
    subscribers=replace(FULL, idle_subscribers=5000, idle_seconds=30.0),
    tasks=many_tasks.Size(
        1_000_000, owners=50_000, requests=100, lost=1000, seconds=30.0, killed=many_tasks.ROLES
    ),
    day=growth.Day(hours=24, hour=60.0, pace=10.0),
)

SMALLEST = Size(
    processes=TINY,
    rounds=1,
    streams=TINY,
    subscribers=replace(TINY, idle_seconds=0.1),
    tasks=many_tasks.Size(
        40, owners=3, requests=3, lost=2, seconds=1.0, killed=many_tasks.ROLES[:1]
    ),
    day=growth.Day(hours=2, hour=1.0, pace=6.0),
)
"""Shows that the code works; the figures mean nothing."""


_WORK = (
    ("token of {} streams x 20/s", Measure("paced", "", "ms", pace.usual)),
    ("run of one chunk, {} at once", Measure("short-runs", "", "runs/s", runs.short_runs)),
)


async def processes(stacks: Sequence[Stack], size: Size) -> AsyncIterator[str]:
    """Yield the processor time of a token and of a run in fleets of different sizes, in turn.

    First all have the same work, then each has it in proportion to its processes.
    """
    fleets = [_contestant(stack, str(at)) for at, stack in enumerate(stacks)]
    for is_equal, (name, measure) in product((True, False), _WORK):
        sizes = [size.processes.times(1 if is_equal else len(one.urls)) for one in fleets]
        results = [Result() for _ in fleets]
        for _, (fleet, share, result) in product(
            range(size.rounds), zip(fleets, sizes, results, strict=True)
        ):
            taken = replace(measure, of=[fleet.name])
            result.add((await rounds.run(taken, [fleet], _plan(share, 1)))[fleet.name])
        for fleet, share, result in zip(fleets, sizes, results, strict=True):
            pairs = zip(result.figures(COST), results[0].figures(COST), strict=True)
            ratio = statistics.median(one / first for one, first in pairs)
            number = share.paced_streams if measure.name == "paced" else share.short_runs_at_once
            of = f"{len(fleet.urls)} gateways and workers"
            yield f"{name.format(number)}, {of}: {_cost(result)}, {ratio:.2f} x the first fleet's"


async def streams(stacks: Sequence[Stack], size: Size) -> AsyncIterator[str]:
    """Yield what tokens of many streams at a time take."""
    [stack] = stacks
    many = Measure("streams", "", "ms", pace.usual, of=["fleet"])
    sizes = size.streams
    results = await rounds.run(many, [_contestant(stack, "fleet")], _plan(sizes, 3))
    result = results["fleet"]
    rate = sizes.paced_streams * 1000 / sizes.token_pace
    yield f"{sizes.paced_streams} streams x {1000 / sizes.token_pace:g}/s: {rate:,.0f} tokens/s"
    yield f"a token: {_cost(result)}"
    p50, p99 = (statistics.median(result.figures(name)) for name in ("", "p99"))
    yield f"from the agent to the client: p50 {p50:.1f} ms, p99 {p99:.1f} ms"


async def idle_subscribers(stacks: Sequence[Stack], size: Size) -> AsyncIterator[str]:
    """Yield what streams of silent tasks take."""
    [stack] = stacks
    many = Measure("subscribers", "", "KB", subscribers.idle, of=["fleet"])
    results = await rounds.run(many, [_contestant(stack, "fleet")], _plan(size.subscribers, 1))
    [sample] = results["fleet"].samples
    yield f"{sample.done} subscribers of silent tasks: {sample.value:.1f} KB of a gateway each"
    share = sample.details["percent of a core"]
    yield f"all of them: {share:.2f} % of a core, of the gateway that serves them"


def _contestant(stack: Stack, name: str) -> Contestant:
    fleet = contestants.of_stack(stack, stack.folder / "beside")
    return replace(fleet, name=name, urls=stack.gateways)


def _plan(sizes: Sizes, number: int) -> rounds.Plan:
    return rounds.Plan(JSON_RPC, sizes, number, lambda _: None)


def _cost(result: Result) -> str:
    costs = result.figures(COST)
    each = result.microseconds_each
    roles = ", ".join(f"{role} {value:,.0f}" for role, value in each.items())
    spread = f"{min(costs):,.0f} to {max(costs):,.0f}"
    return f"{statistics.median(costs):,.0f} us ({spread}) of processor time ({roles})"


async def tasks(stacks: Sequence[Stack], size: Size) -> AsyncIterator[str]:
    """Yield what requests, upkeep and restarts take beside many tasks."""
    [stack] = stacks
    async for line in many_tasks.lines(stack, size.tasks):
        yield line


async def day(stacks: Sequence[Stack], size: Size) -> AsyncIterator[str]:
    """Yield what a fleet holds in the course of a day."""
    [stack] = stacks
    async for line in growth.lines(stack, size.day):
        yield line


@dataclass(frozen=True, slots=True)
class Measurement:
    """One thing of which there is much."""

    take: Callable[[Sequence[Stack], Size], AsyncIterator[str]]
    stacks: Callable[[Path, Size], list[Stack]]
    """Makes what is measured, with a folder."""


def _fleets(folder: Path, _: Size) -> list[Stack]:
    return [measured_stack(folder / str(number), number, number) for number in (1, 2, 4)]


def _one(folder: Path, _: Size) -> list[Stack]:
    return [measured_stack(folder, environment=_LIMIT)]


def _with_short_hours(folder: Path, size: Size) -> list[Stack]:
    return [measured_stack(folder, environment=size.day.settings, triggers=1)]


MEASURED = {
    "processes": Measurement(processes, _fleets),
    "streams": Measurement(streams, _one),
    "subscribers": Measurement(idle_subscribers, _one),
    "tasks": Measurement(tasks, _one),
    "day": Measurement(day, _with_short_hours),
}


async def _show(measurement: Measurement, stacks: Sequence[Stack], size: Size) -> None:
    async for line in measurement.take(stacks, size):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale", description=__doc__)
    parser.add_argument("name", choices=MEASURED)
    parser.add_argument("--tasks", type=int, default=LARGE.tasks.tasks, metavar="N")
    parser.add_argument("--hour", type=float, default=LARGE.day.hour, metavar="SECONDS")
    asked = parser.parse_args()
    size = replace(
        LARGE,
        tasks=replace(LARGE.tasks, tasks=asked.tasks),
        day=replace(LARGE.day, hour=asked.hour),
    )
    measurement = MEASURED[asked.name]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, ExitStack() as running:
        stacks = [running.enter_context(one) for one in measurement.stacks(Path(folder), size)]
        uvloop.run(_show(measurement, stacks, size))
    sys.stdout.write(f"{circumstances({'machine': machine()})}\n")


if __name__ == "__main__":
    main()
