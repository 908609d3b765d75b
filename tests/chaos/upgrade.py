"""``make upgrade``: roll a fleet of an earlier release to the present tree and back under load.

Each role is replaced process by process while clients work, and processes of mixed releases are
killed in between. The verdict is that of `make chaos`.
"""

import argparse
import asyncio
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace_cli.dev.dev_file import Role
from headrace_cli.dev.readiness import until_ready
from tests.chaos.__main__ import summary
from tests.chaos.faults import Fault, LoseNode, Signal
from tests.chaos.fleet import GATEWAYS, TASK_STATES, TRIGGERS, WORKERS, Fleet, fleet_in
from tests.chaos.releases import PRESENT, ROLES, Release, Releases, installed, last_release
from tests.chaos.run import Size, run
from tests.support.waiting import until

_SIZES = {
    "gateway": GATEWAYS,
    "worker": WORKERS,
    "task-state": TASK_STATES,
    "triggers": TRIGGERS,
}
_PAUSES = 1.0, 3.0
_RESTARTED = 120.0
_NODES = 3
_NODE_AWAY = 6.0


@dataclass(frozen=True, slots=True)
class ApplyStreams(Fault):
    """Run ``headrace streams apply`` with the fleet's settings, as operators do first."""

    @property
    def name(self) -> str:
        return "streams apply"

    async def do(self, fleet: Fleet) -> None:
        applying = await asyncio.create_subprocess_exec(
            *(PRESENT.python, "-m", "headrace_cli", "streams", "apply"),
            env=fleet.stack.environment | {"HEADRACE_NATS_URL": fleet.nats_url},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await applying.communicate()
        assert applying.returncode == 0, output.decode()
        logging.getLogger(__name__).info("streams apply: %s", output.decode().strip())


@dataclass(frozen=True, slots=True)
class Roll(Fault):
    """Replace all processes of a role by those of another release, one after the other."""

    role: Role
    release: Release
    releases: Releases = field(repr=False)

    @property
    def name(self) -> str:
        return f"roll {self.role} to {self.release.name}"

    async def do(self, fleet: Fleet) -> None:
        self.releases.choose(self.role, self.release)
        for index in range(_SIZES[self.role]):
            await asyncio.to_thread(self._replace, fleet, index)
            if self.role == "gateway":
                await until_ready([fleet.gateways[index]], with_agents=True, timeout=_RESTARTED)

    def _replace(self, fleet: Fleet, index: int) -> None:
        with suppress(ProcessLookupError):  # It has died, and restarts as the release.
            os.kill(fleet.stack.pids(self.role)[index], signal.SIGTERM)
        what = f"{self.role}-{index} is of {self.release.name}"
        until(lambda: self.release.runs_as(fleet.stack.pids(self.role)[index]), what, _RESTARTED)


def rolls(
    seed: int, earlier: Release, releases: Releases, kills: int, nodes: int = 1
) -> Iterator[tuple[float, Fault]]:
    """Yield the rolls to the present tree and back, each with the seconds after the previous one.

    `kills` processes are killed after each roll, and one of three NATS nodes for a while.
    """
    chance = random.Random(f"{seed}/rolls")
    there = [(role, PRESENT) for role in ROLES]
    back = [(role, earlier) for role in reversed(ROLES)]
    yield chance.uniform(*_PAUSES), ApplyStreams(0.0)
    for role, release in (*there, *back):
        yield chance.uniform(*_PAUSES), Roll(0.0, role, release, releases)
        for _ in range(kills):
            victim = chance.choice(ROLES)
            index = chance.randrange(_SIZES[victim])
            yield chance.uniform(*_PAUSES), Signal(0.0, victim, index, signal.SIGKILL)
        if nodes == _NODES:
            lost = LoseNode(_NODE_AWAY, chance.randrange(nodes), frozen=False)
            yield chance.uniform(*_PAUSES), lost


def main() -> None:
    """Run as the command line says; exit with 1 if a promise was broken."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="headrace-upgrade-"))
    earlier = installed(arguments.revision or last_release(), folder / "earlier")
    releases = Releases(folder / "releases", earlier)
    plan = list(rolls(arguments.seed, earlier, releases, arguments.kills, arguments.nodes))
    size = Size(
        arguments.seed,
        arguments.tasks,
        arguments.at_a_time,
        faults=len(plan),
        nodes=arguments.nodes,
        retention=arguments.retention,
        events=arguments.events,
        schedules=arguments.schedules,
        is_upgrade=True,
    )
    with fleet_in(
        folder / "stack",
        nodes=size.nodes,
        retention=size.retention,
        program=releases.program,
        has_triggers=size.has_triggers,
    ) as fleet:
        outcome = asyncio.run(run(fleet, size, faults=iter(plan)))
    sys.stdout.write(summary(outcome))
    if outcome.problems:
        sys.stdout.write(f"the stack's log: {folder}/stack/dev.log\n")
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make upgrade", description=__doc__)
    parser.add_argument(
        "revision", metavar="FROM", nargs="?", help="git revision (default: the last release)"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--tasks", type=int, default=300, metavar="N", help="at least")
    parser.add_argument("--at-a-time", type=int, default=12, metavar="N")
    parser.add_argument("--kills", type=int, default=2, metavar="N", help="after each roll")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, _NODES), help="NATS nodes")
    parser.add_argument("--events", type=int, default=300, metavar="N", help="of triggers")
    parser.add_argument("--schedules", type=int, default=24, metavar="N")
    parser.add_argument("--retention", type=float, default=60.0, help="of tasks, seconds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
