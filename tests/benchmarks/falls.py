"""Whether a ratio fell by a quarter: ``python -m tests.benchmarks.falls`` (`make bench-falls`).

The small form of `make bench`, for build servers: what an event, a short run and a token cost in
processor time, beside the official SDK's server. Runs per second and latencies depend on what else
the cores do; of processor times, taken in turn, the ratio hardly does. A ratio that fell is
measured up to twice more, and judged by all rounds together.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import uvloop

from tests.benchmarks import contestants, last_run, report, rounds
from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import HEADRACE, OFFICIAL, Contestant
from tests.benchmarks.measure import COST, Measure
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.report import ByServer, Json, Results
from tests.benchmarks.rounds import Result
from tests.benchmarks.sizes import SMALL, Sizes

_NAMES = ("one-stream", "short-runs", "short-runs-awaited", "paced")
MEASURED = [measure for measure in MEASURES if measure.name in _NAMES]

_ROUNDS = 3
_REPEATS = 2
"""Measurements more before a ratio has fallen: other work may disturb the first."""

_KEPT = 0.75
"""Of the recorded ratio, what has to be kept."""

type Advantages = Mapping[str, float]
"""By measure, how many times ours fits into the SDK's processor time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one ratio."""

    measure: Measure
    now: float
    before: float | None

    @property
    def has_fallen(self) -> bool:
        """Tell whether the ratio fell by more than a quarter."""
        return self.before is not None and self.now < _KEPT * self.before

    def line(self) -> str:
        """Return the ratio, and what it was."""
        parts = [f"{self.measure.title}, processor time per {self.measure.each}: "]
        parts.append(f"{self.now:.2f} times ours is the official SDK's")
        if self.before is not None:
            parts.append(f", recorded {self.before:.2f}")
        if self.has_fallen:
            parts.append(": fell by more than a quarter")
        return "".join(parts)


def advantage(by_server: ByServer) -> float:
    """Return how many times ours fits into the SDK's processor time: the median over the rounds."""
    pairs = zip(by_server[OFFICIAL].figures(COST), by_server[HEADRACE].figures(COST), strict=True)
    return statistics.median(theirs / ours for theirs, ours in pairs)


def recorded(last: Json) -> dict[str, float]:
    """Return the ratios of a recorded run."""
    return {one["name"]: 1 / one["ratios"][COST][OFFICIAL]["median"] for one in last["measures"]}


def judge(results: Results, before: Advantages) -> list[Verdict]:
    """Compare with a run before; with nothing, what it lacks."""
    return [
        Verdict(one, advantage(results[one.name]), before.get(one.name))
        for one in MEASURED
        if one.name in results
    ]


async def take(
    measured: Sequence[Measure], servers: Sequence[Contestant], sizes: Sizes, before: Advantages
) -> dict[str, dict[str, Result]]:
    """Measure the servers in turn; what has fallen, again until it has not, or often enough."""
    plan = rounds.Plan(JSON_RPC, sizes, _ROUNDS, say=lambda _: None)
    results = {one.name: await rounds.run(one, servers, plan) for one in measured}
    for _ in range(_REPEATS):
        for fallen in [each for each in judge(results, before) if each.has_fallen]:
            again = await rounds.run(fallen.measure, servers, plan)
            for server, result in results[fallen.measure.name].items():
                result.samples += again[server].samples
                result.processor += again[server].processor
    return results


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and compare with the last recorded run or become it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.falls", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep this run as the last one")
    arguments = parser.parse_args(sys.argv[1:] if words is None else words)
    if not Path("/proc/self/schedstat").exists():
        sys.stderr.write("processor time per process needs Linux's /proc; nothing is measured\n")
        return 0
    before = {} if arguments.record else recorded(last_run.load(last_run.SMALL))
    with ExitStack() as running, tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        starts = contestants.official_alone, contestants.headrace_alone
        servers = [running.enter_context(start(Path(name))) for start in starts]
        results = uvloop.run(take(MEASURED, servers, SMALL, before))
    verdicts = judge(results, before)
    sys.stdout.write("".join(f"{verdict.line()}\n" for verdict in verdicts))
    if arguments.record:
        last_run.save(report.as_json(MEASURED, results), last_run.SMALL)
    return 1 if any(verdict.has_fallen for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
