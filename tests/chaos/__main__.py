"""``make chaos``: run at full size, print a summary, and exit with 1 if a promise was broken."""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from headrace_cli.progress import progress
from tests.chaos.fleet import fleet_in
from tests.chaos.run import Outcome, Size, run

_SHOWN = 200


def main() -> None:
    """Run as the command line says; exit with 1 if a promise was broken."""
    arguments = _arguments()
    size = Size(
        arguments.seed,
        arguments.tasks,
        arguments.at_a_time,
        arguments.faults,
        arguments.nodes,
        arguments.long,
        arguments.retention,
        arguments.events,
        arguments.schedules,
        does_steps=arguments.steps,
    )
    again = " ".join(
        f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}"
        for name, value in vars(arguments).items()
        if value
    )
    sys.stdout.write(f'make chaos ARGS="{again}"\n')
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    with (
        fleet_in(
            folder, nodes=size.nodes, retention=size.retention, has_triggers=size.has_triggers
        ) as fleet,
        progress("Tasks", size.tasks) as begun,
    ):
        # Within, so that the log's lines appear above the bar.
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
        logging.getLogger("httpx").setLevel(logging.WARNING)
        outcome = asyncio.run(run(fleet, size, begun))
    sys.stdout.write(summary(outcome))
    if outcome.problems:
        sys.stdout.write(f"the stack's log: {folder}/dev.log\n")
        sys.exit(1)


def summary(outcome: Outcome) -> str:
    """Return the summary of a run, a line for each figure and each problem."""
    lines = [
        f"{outcome.clients.total()} clients in {outcome.seconds:.0f} s: {_listed(outcome.clients)}",
        f"outcomes as their clients saw them: {_listed(outcome.ends)}",
        f"{outcome.faults.total()} faults: {_listed(outcome.faults)}",
        f"{outcome.events} events over {outcome.connections} connections",
        f"{outcome.follow_ups} follow-ups accepted by running tasks",
        f"{outcome.further_attempts} attempts after the first",
        f"{outcome.children} child tasks",
        f"{outcome.stepped} tasks with steps, {outcome.steps} steps in {outcome.step_calls} calls",
        f"{outcome.waits} waits, {outcome.stored_calls} calls of their webhooks answered with 202",
        f"{outcome.by_events} tasks begun by events, {outcome.by_schedules} by schedules",
        f"{outcome.console} console requests answered",
        f"{outcome.answers} answers to events on the bus",
        f"hostile events: {_listed(outcome.hostile)}",
        f"{outcome.forks} forks that ended",
        f"{outcome.orphans} tasks whose client never learned their id",
        f"{outcome.erased} tasks erased, {outcome.unrecorded} of them before they could be checked",
        f"{len(outcome.problems)} problems",
    ]
    return "\n".join([*lines, *outcome.problems[:_SHOWN], ""])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--tasks", type=int, default=10_000, metavar="N")
    parser.add_argument("--at-a-time", type=int, default=100, metavar="N")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="NATS nodes")
    parser.add_argument("--faults", type=int, help="how many; unset: as long as tasks begin")
    parser.add_argument("--long", type=float, default=30.0, help="longest freezes, seconds")
    parser.add_argument("--retention", type=float, default=60.0, help="of tasks, seconds")
    parser.add_argument("--events", type=int, default=1_000, metavar="N", help="of a trigger")
    parser.add_argument("--schedules", type=int, default=20, metavar="N")
    parser.add_argument("--steps", action="store_true", help="only tasks of agents that do steps")
    return parser.parse_args()


if __name__ == "__main__":
    main()
