"""Any process dies, freezes or leaves at any moment, at random, and every promise holds.

`make chaos` is the same at full size; a line that it prints repeats a run with its seed.
"""

import os
from pathlib import Path

import pytest

from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.entry import Entry, Stamp
from headrace.model.events import task_submitted
from headrace.model.task import CANCELED, COMPLETED, WORKING, TaskKey
from tests.chaos.__main__ import told
from tests.chaos.agents import WHIM
from tests.chaos.families import Families
from tests.chaos.faults import plan
from tests.chaos.run import Size, run, stack_in
from tests.chaos.verdict import ends, overlaps

SEED = 20
ROOT = "0-" + "0" * 32
FEW = Size(SEED, tasks=120, at_a_time=12, faults=25)
MANY = Size(SEED, tasks=2_000, at_a_time=60, faults=240)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_every_task_ends_and_nothing_is_missed_while_processes_die_stop_and_leave(
    tmp_path: Path,
) -> None:
    with stack_in(tmp_path) as stack:
        outcome = await run(stack, MANY if "HEADRACE_SOAK" in os.environ else FEW)
        log = stack.log()
    assert outcome.wrong == [], f"{told(outcome)}\n{log}"
    assert len(outcome.faults) > 5
    assert outcome.connections > sum(outcome.ends.values())
    assert outcome.children > 50


def test_a_seed_says_what_is_done_and_when() -> None:
    first, again, other = plan(1), plan(1), plan(2)
    faults = [next(first) for _ in range(100)]
    assert faults == [next(again) for _ in range(100)]
    assert faults != [next(other) for _ in range(100)]
    assert {fault.what for fault in faults} == {"kill", "kill all", "stop", "drain"}


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


def log_of(task: str, asked: str, state: str, *, name: str = "") -> list[Entry]:
    """Return a log: of the client's task, `ROOT`, or of what that has asked for."""
    lineage = Lineage(ROOT, "head", 1, name, ("head",))
    metadata = {DELEGATION: lineage.to_json()} if name else {}
    draft = task_submitted(task, "c", {"parts": [{"text": asked}]}, metadata)
    stamp = Stamp("log1", 1, "w", state, 1, 1)
    return [Entry(stamp, [draft.line(1)], 1, "")]


@pytest.mark.parametrize(
    ("children", "wrong"),
    [
        ([("a", "5 1", COMPLETED), ("b", "6 1", COMPLETED), ("whim", WHIM, CANCELED)], ""),
        ([("a", "5 1", COMPLETED)], "it asked"),
        ([(n, t, COMPLETED) for n, t in (("a", "5 1"), ("b", "6 1"), ("c", "6 1"))], "than once"),
        ([("a", "5 1", COMPLETED), ("b", "6 1", CANCELED)], "its children are"),
        ([("a", "5 1", COMPLETED), ("b", "6 1", WORKING)], "nobody wants it"),
        ([("key:whim 1", WHIM, COMPLETED)], "nobody waited for it"),
    ],
)
def test_children_that_are_not_as_they_must_be_are_seen(
    children: list[tuple[str, str, str]], wrong: str
) -> None:
    families = Families()
    families.note(TaskKey("default", "head", ROOT), log_of(ROOT, "5 1", COMPLETED))
    for name, asked, state in children:
        named = "key:whim 1" if name == "whim" else name
        log = log_of(named, asked, state, name=named)
        families.note(TaskKey("default", "plain", named), log)
    found = families.wrong()
    assert families.size == len(children)
    assert any(wrong in each for each in found) if wrong else found == []


@pytest.mark.parametrize(
    "states", [[WORKING], [WORKING, CANCELED, COMPLETED], [COMPLETED, WORKING, COMPLETED]]
)
def test_logs_that_do_not_end_once_are_seen(states: list[str]) -> None:
    assert list(ends([entry(1, 1, "a", state) for state in states]))
    assert not list(ends([entry(1, 1, "a"), entry(1, 1, "a", COMPLETED)]))
