"""``make chaos``: a run at full size; says what was done, what came of it, and what was wrong."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Outcome, Size, run, stack_in

_SHOWN = 50


def main() -> None:
    """Do what the command line says; exit with 1 if a promise was broken."""
    asked = _asked()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    again = f"--seed {asked.seed} --tasks {asked.tasks} --at-a-time {asked.at_a_time}"
    sys.stdout.write(f'make chaos ARGS="{again}"\n')
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    with stack_in(folder) as stack:
        size = Size(asked.seed, asked.tasks, asked.at_a_time)
        outcome = asyncio.run(run(stack, size))
    sys.stdout.write(told(outcome))
    if outcome.wrong:
        sys.stdout.write(f"the stack's log: {folder}/dev.log\n")
        sys.exit(1)


def told(outcome: Outcome) -> str:
    """Return an outcome as lines of text."""
    faults = ", ".join(f"{what} {count}" for what, count in sorted(outcome.faults.items()))
    ends = ", ".join(f"{state} {count}" for state, count in sorted(outcome.ends.items()))
    lines = [
        f"{sum(outcome.ends.values())} tasks in {outcome.seconds:.0f} s: {ends}",
        f"{sum(outcome.faults.values())} faults: {faults}",
        f"{outcome.events} events over {outcome.connections} connections",
        f"{outcome.further_attempts} attempts after a first",
        f"{outcome.children} tasks that other tasks have asked for",
        f"{outcome.orphans} tasks whose client never learned of them",
        f"{len(outcome.wrong)} things wrong",
    ]
    return "\n".join([*lines, *outcome.wrong[:_SHOWN], ""])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--tasks", type=int, default=10_000, metavar="N")
    parser.add_argument("--at-a-time", type=int, default=100, metavar="N")
    return parser.parse_args()


if __name__ == "__main__":
    main()
