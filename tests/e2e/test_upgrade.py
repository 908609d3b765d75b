"""A fleet is rolled from an earlier release to this one and back, and every promise holds.

`make upgrade` is the same from any revision.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from tests.chaos.__main__ import summary
from tests.chaos.faults import Fault, LoseNode
from tests.chaos.fleet import fleet_in
from tests.chaos.releases import PRESENT, ROLES, Release, Releases, installed, last_release
from tests.chaos.run import Size, run
from tests.chaos.upgrade import Roll, rolls

IN_FULL = "HEADRACE_SOAK" in os.environ
SIZE = Size(20, tasks=100, at_a_time=8, retention=30.0, events=100, schedules=8, is_upgrade=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not IN_FULL, reason="takes minutes: make soak, or make upgrade")
async def test_every_task_ends_while_each_process_is_replaced_by_this_release_and_back(
    tmp_path: Path,
) -> None:
    earlier = installed(last_release(), tmp_path / "earlier")
    releases = Releases(tmp_path / "releases", earlier)
    stack = tmp_path / "stack"
    plan = list(rolls(SIZE.seed, earlier, releases, kills=1))
    size = replace(SIZE, faults=len(plan))
    with fleet_in(
        stack, nodes=1, retention=SIZE.retention, program=releases.program, has_triggers=True
    ) as fleet:
        outcome = await run(fleet, size, faults=iter(plan))
        log = fleet.stack.log()
    assert outcome.problems == [], f"{summary(outcome)}\n{log}"
    assert sum(count for name, count in outcome.faults.items() if "roll" in name) == 2 * len(ROLES)
    assert min(outcome.by_events, outcome.by_schedules, outcome.console) > 0


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Runs git in a work tree with two commits."""
    author = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")

    def git(*command: str) -> str:
        run_git = ("git", *author, *command)
        done = subprocess.run(run_git, cwd=tmp_path, capture_output=True, timeout=60, check=True)
        return done.stdout.decode().strip()

    git("init", "--quiet", "--initial-branch", "main")
    for number in range(2):
        git("commit", "--quiet", "--allow-empty", "--message", f"{number}")
    return git


def test_the_last_release_is_the_last_tag_before_the_present_commit(
    tmp_path: Path, git: Callable[..., str]
) -> None:
    assert last_release(tmp_path) == "HEAD", "before the first release, there is nothing else"
    git("tag", "v0.1.0", "HEAD~1")
    git("tag", "v0.2.0", "HEAD")
    assert last_release(tmp_path) == "v0.1.0"
    git("commit", "--quiet", "--allow-empty", "--message", "after a release")
    git("tag", "--delete", "v0.1.0")
    assert last_release(tmp_path) == "v0.2.0"


def speaking(name: str, folder: Path) -> Release:
    """Return a release whose interpreter says its name and its arguments."""
    python = folder / name
    python.write_text(f'#!/bin/sh\necho {name} "$@"\n')
    python.chmod(0o755)
    return Release(name, python, folder)


def said_by(releases: Releases, *arguments: str) -> str:
    script = str(releases.program[-1])
    done = subprocess.run([script, *arguments], capture_output=True, timeout=60, check=True)
    return done.stdout.decode().strip()


def test_each_role_starts_with_the_release_that_was_chosen_for_it(tmp_path: Path) -> None:
    old, new = speaking("old", tmp_path), speaking("new", tmp_path)
    releases = Releases(tmp_path / "releases of roles", old)
    worker = ("-m", "headrace_cli", "worker", "a b")
    assert said_by(releases, *worker) == "old -m headrace_cli worker a b"
    releases.choose("worker", new)
    assert said_by(releases, *worker) == "new -m headrace_cli worker a b"
    assert said_by(releases, "-m", "headrace_cli", "gateway") == "old -m headrace_cli gateway"
    assert said_by(releases, "-c", "print('present')") == "present"


def test_every_role_is_rolled_there_and_back_the_same_for_each_seed(tmp_path: Path) -> None:
    earlier = Release("earlier", tmp_path / "python", tmp_path)
    releases = Releases(tmp_path / "releases", earlier)
    plan = list(rolls(7, earlier, releases, kills=2))
    rolled = [fault for _, fault in plan if isinstance(fault, Roll)]
    assert [(one.role, one.release) for one in rolled] == [
        *((role, PRESENT) for role in ROLES),
        *((role, earlier) for role in reversed(ROLES)),
    ]
    between = [len(list(some)) for is_roll, some in groupby(plan, is_a_roll) if not is_roll]
    assert between == [1, *[2] * len(rolled)], "the streams first, then kills after each"
    assert plan == list(rolls(7, earlier, releases, kills=2))
    lost = [fault for _, fault in rolls(7, earlier, releases, kills=2, nodes=3) if is_a_loss(fault)]
    assert len(lost) == len(rolled), "and a node of three after each roll"


def is_a_loss(fault: Fault) -> bool:
    return isinstance(fault, LoseNode)


def is_a_roll(planned: tuple[float, object]) -> bool:
    return isinstance(planned[1], Roll)
