"""What open runs cost whose agents wait, by ``python -m tests.benchmarks.idle_runs``.

``--other FOLDER`` measures the code of another checkout at the same time.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import uvloop

from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import connection_to, host_of, measured_stack, pids_of
from tests.benchmarks.private_memory import private_of
from tests.benchmarks.processor_time import seconds_of
from tests.support.compose_file import ROOT
from tests.support.stack import Stack
from tests.support.waiting import eventually

_PACED = "/v1/agents/paced"
_ORDER = "2 3600000 0"
"""One chunk, and an hour until the next."""
_ENDED_ORDER = "1 0 0"
_AT_ONCE = 50
_FIRST, _FIRST_SETTLE = 100, 5.0
"""Runs that are open before memory is measured, and seconds after they began."""
_PACKAGES = ("shared", *(f"services/{each}" for each in ("gateway", "worker", "task-state", "cli")))

type ByRole = dict[str, float]


def stack_of(checkout: Path, folder: Path) -> Stack:
    """Return a stack with the code of `checkout`."""
    path = ":".join(str(each) for each in (*(checkout / each for each in _PACKAGES), ROOT))
    limits = {"HEADRACE_CONCURRENCY": "5000", "PYTHONPATH": path}
    return measured_stack(folder, environment=limits)


async def measure(stacks: list[Stack], options: argparse.Namespace) -> None:
    """Open the runs on each stack, and print its processor time and memory by role."""
    with ExitStack() as open_:
        await _windows("empty", stacks, 1, options.seconds)
        for stack in stacks:
            await _end(stack, options.before)
            await _begin(stack, _FIRST, open_)
        await asyncio.sleep(_FIRST_SETTLE)
        before = [private_by_role(stack) for stack in stacks]
        for stack in stacks:
            await _begin(stack, options.runs, open_)
        await asyncio.sleep(options.settle)
        await _windows(f"{options.runs} runs", stacks, options.windows, options.seconds)
        for stack, empty in zip(stacks, before, strict=True):
            grown = {
                role: (now - empty[role]) / options.runs
                for role, now in private_by_role(stack).items()
            }
            _say(f"memory of each, {stack.folder.name}", " KB", grown)


async def _end(stack: Stack, runs: int) -> None:
    """Have `runs` begin and end: first runs have processes allocate buffers that they keep.

    nats-server keeps up to 8 MB of the newest entries in memory, in buffers of 0.25 to 8 MB.
    """
    url = stack.gateways[0]
    body = JSON_RPC.streamed(host_of(url), _PACED, _ENDED_ORDER)
    with ExitStack() as open_:
        lent = [open_.enter_context(closing(connection_to(url))) for _ in range(_AT_ONCE)]
        for _ in range(runs // _AT_ONCE):
            await asyncio.gather(*(connection.ask(body) for connection in lent))


async def _begin(stack: Stack, runs: int, open_: ExitStack) -> None:
    url = stack.gateways[0]
    body = JSON_RPC.streamed(host_of(url), _PACED, _ORDER)
    for _ in range(runs // _AT_ONCE):
        lent = [open_.enter_context(closing(connection_to(url))) for _ in range(_AT_ONCE)]
        exchanges = [await connection.begin(body) for connection in lent]

        async def have_begun() -> bool:
            return all(b"artifactUpdate" in each.body for each in exchanges)  # noqa: B023

        await eventually(have_begun, "all runs have begun")


async def _windows(name: str, stacks: list[Stack], windows: int, seconds: float) -> None:
    for _ in range(windows):
        before = [seconds_of(pids_of(stack)) for stack in stacks]
        await asyncio.sleep(seconds)
        for stack, start in zip(stacks, before, strict=True):
            now = seconds_of(pids_of(stack))
            share = {role: 100 * (now[role] - start[role]) / seconds for role in now}
            _say(f"{name}, {stack.folder.name}", " % of a core", share)


def private_by_role(stack: Stack) -> ByRole:
    """Return the private memory of the processes of each role, KB."""
    return {role: sum(map(private_of, pids)) for role, pids in pids_of(stack).items()}


def _say(what: str, unit: str, by_role: ByRole) -> None:
    roles = ", ".join(f"{role} {value:.2f}" for role, value in by_role.items())
    sys.stdout.write(f"{what}: {sum(by_role.values()):.2f}{unit} ({roles})\n")
    sys.stdout.flush()


def _stacks(options: argparse.Namespace, folder: Path) -> Iterator[Stack]:
    for number, checkout in enumerate([*options.other, ROOT]):
        yield stack_of(checkout, folder / ("this" if checkout == ROOT else f"other-{number}"))


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--before", type=int, default=4000, help="runs that end before")
    parser.add_argument("--settle", type=float, default=30, help="seconds before the windows")
    parser.add_argument("--seconds", type=float, default=30, help="of each window")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--other", type=Path, action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, ExitStack() as running:
        stacks = [running.enter_context(stack) for stack in _stacks(options, Path(folder))]
        uvloop.run(measure(stacks, options))


if __name__ == "__main__":
    main()
