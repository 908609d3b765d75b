"""What traces and metrics cost: ``python -m tests.benchmarks.telemetry``; `make bench` has it too.

Three stacks take turns: one exports spans and has metrics, one has metrics only, and in one
functions that do nothing take the place of the metrics' methods, as no setting turns them off.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import uvloop

from tests.benchmarks import contestants, pace, rounds, runs
from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.measure import Measure, Place, Sample
from tests.benchmarks.rounds import Result
from tests.benchmarks.sizes import FULL, TINY, Sizes
from tests.support.compose_file import ROOT
from tests.support.span_collector import span_collector

NEITHER, METRICS, BOTH = "neither", "metrics", "metrics and traces"
VARIANTS = (NEITHER, METRICS, BOTH)

_EXPORT_EVERY_MS = 500
_EXPORTED = 1.0
"""Seconds after which the spans of a sample are exported, so that it bears their cost."""

_RUN_GOAL, _TOKEN_GOAL = 1.05, 1.01
"""What the processor time with both is not to exceed, by that with neither."""

_NO_METRICS = '''"""Python imports this at the start of a process."""

from prometheus_client import Counter, Gauge, Histogram

METHODS = [(Counter, "inc"), (Gauge, "inc"), (Gauge, "dec"), (Gauge, "set"), (Histogram, "observe")]
for kind, name in METHODS:
    setattr(kind, name, lambda *_, **__: None)
'''


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and show what was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.telemetry", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="samples each (5)")
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    asked = parser.parse_args(sys.argv[1:] if words is None else words)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name, ExitStack() as running:
        folder = Path(name)
        collector = running.enter_context(span_collector())
        servers = list[Contestant]()
        for variant, variables in environments(folder, collector.url).items():
            started = contestants.headrace(folder / variant, environment=variables)
            servers.append(replace(running.enter_context(started), name=variant))
        measured = uvloop.run(lines(servers, TINY if asked.tiny else FULL, asked.rounds))
        measured.append(f"{len(collector.spans())} spans, load {os.getloadavg()[0]:.1f}")
    sys.stdout.write("\n".join([*measured, ""]))


def environments(folder: Path, collector: str) -> dict[str, dict[str, str]]:
    """Return the environment of each variant's stack. Spans go to the URL `collector`.

    A module that one of them needs is written to `folder`.
    """
    patches = folder / "patches"
    patches.mkdir()
    (patches / "sitecustomize.py").write_text(_NO_METRICS)
    return {
        NEITHER: {"PYTHONPATH": f"{patches}{os.pathsep}{ROOT}"},
        METRICS: {},
        BOTH: {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
            "OTEL_BSP_SCHEDULE_DELAY": str(_EXPORT_EVERY_MS),
        },
    }


async def lines(
    servers: Sequence[Contestant], sizes: Sizes, times: int, exported: float = _EXPORTED
) -> list[str]:
    """Measure the variants in turn, so many times at `sizes`; return a line per measure.

    Spans are exported within `exported` seconds.
    """

    def measure(title: str, unit: str, take: Callable[[Place], Awaitable[Sample]]) -> Measure:
        async def take_and_export(place: Place) -> Sample:
            sample = await take(place)
            await asyncio.sleep(exported)
            return sample

        return Measure(title, title, unit, take_and_export, of=VARIANTS)

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    plan = rounds.Plan(JSON_RPC, sizes, times, say)
    short_runs = measure("short runs, 32 at once, streamed", "runs/s", runs.short_runs)
    tokens = measure("tokens, 60 streams x 20/s", "ms", pace.usual)
    return [
        _line(one, goal, await rounds.run(one, servers, plan))
        for one, goal in ((short_runs, _RUN_GOAL), (tokens, _TOKEN_GOAL))
    ]


def _line(measure: Measure, goal: float, results: Mapping[str, Result]) -> str:
    costs = {name: sum(one.microseconds_each.values()) for name, one in results.items()}
    beside = {name: cost / costs[NEITHER] for name, cost in costs.items()}
    parts = [f"{name} {costs[name]:,.1f} us ({beside[name]:.3f} x)" for name in VARIANTS]
    verdict = "ok" if beside[BOTH] <= goal else "NO"
    return f"{measure.title}, each: {', '.join(parts)}, goal {goal:g} x ({verdict})"


if __name__ == "__main__":
    main()
