"""What traces and metrics cost: ``python -m tests.benchmarks.telemetry``; `make bench` has it too.

The processes of one stack are switched between the variants from round to round, so that the same
processes do the same work and only the variant differs. What a token costs is too little to be seen
so, and is counted: the calls of metrics' methods per token, those per run among them, times what
one takes. No span is made per token.

The collector of spans has a process of its own: in this one it would slow down the clients, whose
requests then come one by one, and each message would wake every process.
"""

import argparse
import mmap
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop
from prometheus_client import CollectorRegistry

from headrace.loop_metrics import LoopCounter, LoopHistogram
from headrace.metrics import SECONDS
from tests.benchmarks import contestants, pace, processor_time, runs
from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.measure import Place
from tests.benchmarks.sizes import FULL, SMALL, TINY, Sizes
from tests.support.compose_file import ROOT
from tests.support.span_collector import collector_process

NEITHER, METRICS = "neither", "metrics"
SAMPLED, ALL = "metrics, 1 trace in 10 (the default)", "metrics, all traces"
AGAIN = "neither again"
"""The same as `NEITHER`: what the two differ by is the machine's."""

VARIANTS = (NEITHER, AGAIN, METRICS, SAMPLED, ALL)
_CODES = {NEITHER: 0, AGAIN: 0, METRICS: 1, SAMPLED: 2, ALL: 3}
"""As the processes read them."""

type _ByRole = dict[str, float]

_OWN = "gateway", "worker", "task-state", "triggers"
"""The roles of Headrace's own processes; NATS and Redis make no spans."""

_RUN_GOAL, _TOKEN_GOAL = 1.05, 1.01
"""What the processor time with the defaults is not to exceed, by that with neither."""

_FULL_BATCHES = {"OTEL_BSP_SCHEDULE_DELAY": "3600000"}
"""Spans are exported as soon as there are 512, so in the rounds that make them."""

_SWITCHED = '''"""Python imports this at the start of a process."""

import mmap
import os
from pathlib import Path

from opentelemetry import trace
from prometheus_client import Counter, Gauge, Histogram

from headrace import tracing
from headrace.loop_metrics import LoopCount, LoopTimes

METHODS = [
    *((Counter, "inc"), (Gauge, "inc"), (Gauge, "dec"), (Gauge, "set"), (Histogram, "observe")),
    *((LoopCount, "inc"), (LoopTimes, "observe")),
]
folder = Path(os.environ["BENCHMARK_SWITCH"])
with (folder / "variant").open("rb") as file:
    variant = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
path = folder / f"calls-{os.getpid()}"
path.write_bytes(bytes(8))
with path.open("r+b") as file:
    calls = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


def switched(method):
    def call(*arguments, **options):
        if variant[0] > 0:
            calls[0] += 1
            method(*arguments, **options)

    return call


for kind, name in METHODS:
    setattr(kind, name, switched(getattr(kind, name)))

get_provider, without = trace.get_tracer_provider, trace.ProxyTracerProvider()
samplers, chosen = [], [2]


def get_tracer_provider():
    # It takes part in what is measured: no check of an abstract class, nothing set again.
    at = variant[0]
    if at < 2:
        return without
    provider = get_provider()
    if at != chosen[0] and type(provider) is not trace.ProxyTracerProvider:
        if not samplers:
            from opentelemetry.sdk.trace.sampling import DEFAULT_ON

            samplers.extend((provider.sampler, DEFAULT_ON))
        # The tracer has the sampler that it was made with.
        tracing._tracer_of(provider).sampler, chosen[0] = samplers[at - 2], at
    return provider


trace.get_tracer_provider = get_tracer_provider
'''


class Switch:
    """Chooses the variant of all processes that have its environment."""

    def __init__(self, folder: Path) -> None:
        """Choose the variant with everything, as processes start with what they will have."""
        folder.mkdir()
        self._folder = folder
        (folder / "sitecustomize.py").write_text(_SWITCHED)
        path = folder / "variant"
        path.write_bytes(bytes((_CODES[SAMPLED],)))
        with path.open("r+b") as file:
            self._variant = mmap.mmap(file.fileno(), 1)

    def environment(self, collector: str) -> dict[str, str]:
        """Return the processes' environment. Their spans go to the URL `collector`."""
        return {
            "PYTHONPATH": f"{self._folder}{os.pathsep}{ROOT}",
            "BENCHMARK_SWITCH": str(self._folder),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        }

    def choose(self, variant: str) -> None:
        """Switch all processes over."""
        self._variant[0] = _CODES[variant]

    def metric_calls(self) -> int:
        """Return how often a method of a metric was called, in all processes."""
        counts = [path.read_bytes() for path in self._folder.glob("calls-*")]
        return sum(int.from_bytes(count, sys.byteorder) for count in counts)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a token takes, in microseconds, and the metrics' share in it."""

    cost: float
    metric_calls: float
    metric_call: float


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and show what was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.telemetry", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=12, metavar="N", help="samples each (12)")
    parser.add_argument("--tiny", action="store_true", help="only show that it works")
    request = parser.parse_args(sys.argv[1:] if words is None else words)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as name,
        collector_process() as spans,
    ):
        switch = Switch(Path(name) / "switch")
        environment = switch.environment(spans.url) | _FULL_BATCHES
        with contestants.headrace(Path(name), environment=environment) as server:
            sizes = TINY if request.tiny else replace(SMALL, paced_tokens=FULL.paced_tokens)
            measured = uvloop.run(lines(server, switch, sizes, request.rounds))
        measured.append(f"{spans.end()} spans, load {os.getloadavg()[0]:.1f}")
    sys.stdout.write("\n".join([*measured, ""]))


async def lines(server: Contestant, switch: Switch, sizes: Sizes, rounds: int) -> list[str]:
    """Measure the variants in turn, so many times at `sizes`; return a line per figure."""
    place = Place(server, JSON_RPC, sizes)
    costs = await _short_runs(place, switch, rounds)
    tokens = await _tokens(place, switch)
    of_all = _totals(costs, costs[SAMPLED][0].keys())
    return [
        _runs_line("a short run, 32 at once, streamed", of_all),
        _runs_line("its part in Headrace's own processes", _totals(costs, _OWN)),
        _tokens_line(tokens, sizes.paced_tokens),
    ]


def _totals(
    costs: Mapping[str, Sequence[Mapping[str, float]]], roles: Iterable[str]
) -> dict[str, list[float]]:
    """Return by variant what each round took in the processes of `roles`."""
    chosen = list(roles)
    return {
        variant: [sum(cost[role] for role in chosen) for cost in of_rounds]
        for variant, of_rounds in costs.items()
    }


def _runs_line(what: str, costs: Mapping[str, Sequence[float]]) -> str:
    each = {name: statistics.median(of_rounds) for name, of_rounds in costs.items()}
    parts = [f"{name} {each[name]:,.0f} us ({_beside(costs, name)})" for name in VARIANTS]
    verdict = _verdict(statistics.median(_ratios(costs, SAMPLED)), _RUN_GOAL)
    return f"{what}: {', '.join(parts)}, {verdict}"


def _ratios(costs: Mapping[str, Sequence[float]], name: str) -> list[float]:
    return [cost / beside for cost, beside in zip(costs[name], costs[NEITHER], strict=True)]


def _beside(costs: Mapping[str, Sequence[float]], name: str) -> str:
    ratios = sorted(_ratios(costs, name))
    quarter = len(ratios) // 4
    return f"{statistics.median(ratios):.3f} x, {ratios[quarter]:.2f} to {ratios[~quarter]:.2f}"


def _verdict(beside: float, goal: float) -> str:
    return f"goal {goal:g} x ({'ok' if beside <= goal else 'NO'})"


def _tokens_line(tokens: Tokens, of_run: int) -> str:
    metrics = tokens.metric_calls * tokens.metric_call
    beside = 1 + metrics / tokens.cost
    return (
        f"a token of {of_run}, 60 streams x 20/s: {tokens.cost:,.0f} us, of which"
        f" {tokens.metric_calls:.2f} calls of metrics {metrics:.2f} us: {beside:.4f} x,"
        f" {_verdict(beside, _TOKEN_GOAL)}"
    )


async def _short_runs(place: Place, switch: Switch, rounds: int) -> dict[str, list[_ByRole]]:
    """Return by variant the microseconds of a run in each round."""
    for variant in VARIANTS:
        switch.choose(variant)
        await _run_cost(place)
    costs: dict[str, list[_ByRole]] = {variant: [] for variant in VARIANTS}
    for at in range(rounds):
        # In another order each time: what a round leaves behind weighs on all of them.
        for variant in random.Random(at).sample(VARIANTS, len(VARIANTS)):
            switch.choose(variant)
            costs[variant].append(await _run_cost(place))
            cost = sum(costs[variant][-1].values())
            sys.stderr.write(f"short runs, {variant}: {cost:,.0f} us each\n")
    return costs


async def _run_cost(place: Place) -> _ByRole:
    before = processor_time.by_role(place.contestant)
    sample = await runs.short_runs(place)
    spent = await _microseconds(place.contestant, before)
    return {role: microseconds / sample.done for role, microseconds in spent.items()}


async def _microseconds(server: Contestant, before: Mapping[str, float]) -> _ByRole:
    await processor_time.settle(server)
    after = processor_time.by_role(server)
    return {role: (seconds - before[role]) * 1e6 for role, seconds in after.items()}


async def _tokens(place: Place, switch: Switch) -> Tokens:
    switch.choose(NEITHER)
    before = processor_time.by_role(place.contestant)
    sample = await pace.usual(place)
    cost = sum((await _microseconds(place.contestant, before)).values()) / sample.done
    switch.choose(SAMPLED)
    calls = switch.metric_calls()
    sample = await pace.usual(place)
    await processor_time.settle(place.contestant)
    return Tokens(cost, (switch.metric_calls() - calls) / sample.done, _metric_call())


def _metric_call(times: int = 20_000) -> float:
    """Return the microseconds of a call: the mean of a counter's and a histogram's.

    They are those of runs and appends, whose labels are looked up once.
    """
    registry = CollectorRegistry()
    counter = LoopCounter("counted", "Counted.", ["name"], registry).labels("a")
    histogram = LoopHistogram("observed", "Observed.", ["name"], SECONDS, registry).labels("a")
    start = time.process_time()
    for _ in range(times):
        counter.inc()
        histogram.observe(0.1)
    return (time.process_time() - start) / times / 2 * 1e6


if __name__ == "__main__":
    main()
