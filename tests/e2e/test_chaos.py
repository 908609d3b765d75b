"""Any process dies, freezes or leaves at any moment, at random, and every promise holds.

`make chaos` is the same at full size; a line that it prints repeats a run with its seed.
"""

import os
from pathlib import Path

import pytest

from headrace.entry import Entry, Stamp
from headrace.task import CANCELED, COMPLETED, WORKING
from tests.chaos.__main__ import told
from tests.chaos.faults import plan
from tests.chaos.run import Size, run, stack_in
from tests.chaos.verdict import ends, overlaps

SEED = 20
FEW = Size(SEED, tasks=200, at_a_time=15, seconds=40)
MANY = Size(SEED, tasks=2_000, at_a_time=60, seconds=240)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_every_task_ends_and_nothing_is_missed_while_processes_die_stop_and_leave(
    tmp_path: Path,
) -> None:
    with stack_in(tmp_path) as stack:
        outcome = await run(stack, MANY if "HEADRACE_SOAK" in os.environ else FEW)
        log = stack.log()
    assert outcome.wrong == [], f"{told(outcome)}\n{log}"
    assert len(outcome.faults) > 3
    assert outcome.connections > sum(outcome.ends.values())


def test_a_seed_says_what_is_done_and_when() -> None:
    first, again, other = plan(1), plan(1), plan(2)
    faults = [next(first) for _ in range(100)]
    assert faults == [next(again) for _ in range(100)]
    assert faults != [next(other) for _ in range(100)]
    assert {fault.what for fault in faults} == {"kill", "stop", "drain"}


def entry(leg: int, attempt: int, writer: str, state: str = WORKING) -> Entry:
    return Entry(Stamp("log1", 1, writer, state, leg, attempt), [b"{}"], 1, "")


@pytest.mark.parametrize(
    "log",
    [
        [entry(1, 1, "a"), entry(1, 2, "b"), entry(1, 1, "a")],
        [entry(1, 1, "a"), entry(1, 1, "b")],
        [entry(2, 1, "a"), entry(1, 2, "b")],
    ],
)
def test_attempts_that_overlap_are_seen(log: list[Entry]) -> None:
    assert list(overlaps(log))
    assert not list(overlaps([entry(1, 1, "a"), entry(1, 2, "b"), entry(4, 1, "c")]))


@pytest.mark.parametrize(
    "states", [[WORKING], [WORKING, CANCELED, COMPLETED], [COMPLETED, WORKING, COMPLETED]]
)
def test_logs_that_do_not_end_once_are_seen(states: list[str]) -> None:
    assert list(ends([entry(1, 1, "a", state) for state in states]))
    assert not list(ends([entry(1, 1, "a"), entry(1, 1, "a", COMPLETED)]))
