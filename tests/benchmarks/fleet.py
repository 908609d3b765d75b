"""What has no counterpart in one process: ``python -m tests.benchmarks.fleet`` (``make bench``)."""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.benchmarks.contestants import measured_stack
from tests.benchmarks.failover import failovers
from tests.benchmarks.rebuild import rebuild
from tests.benchmarks.scaling import runs_per_second
from tests.benchmarks.ticking import ticks
from tests.support.stack import Stack

MEDIAN, WORST = 2.5, 4.0
"""Seconds that a failover may take."""

_FAILOVER_WORKERS = 3

type Stacks = Callable[[str, int], AbstractContextManager[Stack]]
"""Lends a stack for the measurement of that name, with that many workers."""


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and show a line as soon as it is known."""
    sizes = asked(sys.argv[1:] if words is None else words)
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:

        def started(name: str, workers: int) -> Stack:
            limit = {"HEADRACE_CONCURRENCY": str(sizes.permits)}
            return measured_stack(
                Path(folder) / name, workers=workers, triggers=1, environment=limit
            )

        for line in lines(sizes, started):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()


def lines(sizes: argparse.Namespace, stacks: Stacks) -> Iterator[str]:
    """Measure at `sizes` on `stacks`; yield what was measured, a line at a time."""
    with stacks("failover", _FAILOVER_WORKERS) as stack:
        took = asyncio.run(failovers(stack, sizes.kills))
    least, median, most = min(took), statistics.median(took), max(took)
    verdict = "ok" if median <= MEDIAN and most <= WORST else "NO"
    figures = f"{least:.1f} / {median:.1f} / {most:.1f} s"
    yield f"failover, {len(took)} kills, least / median / most: {figures} ({verdict})"
    for workers in sizes.workers:
        with stacks(f"scaling-{workers}", workers) as stack:
            rate = asyncio.run(runs_per_second(stack, sizes.permits * workers, sizes.rounds))
        yield f"runs of 1 s of waiting, {workers} worker processes: {rate:.0f} runs/s"
    with stacks("rebuild", 1) as stack:
        rebuilt = asyncio.run(rebuild(stack, sizes.tasks, sizes.waiting))
    yield from rebuilt.lines()
    for number in sizes.schedules:
        with stacks(f"ticking-{number}", 1) as stack:
            came = asyncio.run(ticks(stack, number, sizes.seconds))
        yield from came.lines()


def asked(words: Sequence[str]) -> argparse.Namespace:
    """Read the sizes from the arguments of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fleet", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="of workers (20)")
    parser.add_argument(
        "--rounds", type=int, default=6, metavar="N", help="times the room for runs (6)"
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1, 2, 4], metavar="N", help="processes (1 2 4)"
    )
    parser.add_argument(
        "--permits", type=int, default=64, metavar="N", help="concurrency limit of a worker (64)"
    )
    parser.add_argument(
        "--tasks", type=int, default=20_000, metavar="N", help="in the view (20000)"
    )
    parser.add_argument(
        "--waiting", type=int, default=100, metavar="N", help="of them, to answer, to cancel (100)"
    )
    parser.add_argument(
        "--schedules",
        type=int,
        nargs="+",
        default=[100, 500],
        metavar="N",
        help="that all fire every second (100 500)",
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="of schedules (60)"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
