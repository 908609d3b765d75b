"""A parent's worker is killed while children run: they run on, once, and are met again."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.model.task import CANCELED, COMPLETED
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_cancelling import cancel
from tests.support.delegation_logs import (
    answer,
    attempts,
    child_of,
    child_reports,
    children,
    ends,
    log_of,
    relayed,
)
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

_AGENTS = "tests.support.delegating_agents"

type Runs = Callable[[], list[str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file in which children record their attempts."""
    (tmp_path / "runs").touch()
    return tmp_path / "runs"


@pytest.fixture
def runs(file: Path) -> Runs:
    """Returns a function that reads the recorded attempts."""
    return lambda: [line.split(" ", 1)[1] for line in file.read_text().splitlines()]


@pytest.fixture
async def helpers(spawn: Spawn, file: Path) -> WorkerProcess:
    """A worker that serves the children."""
    return await asyncio.to_thread(spawn, f"{_AGENTS}:children", recorded_runs=file)


async def killed_while_asking(
    submitter: TaskSubmitter, spawn: Spawn, agent: str, prompt: str, request: int
) -> Task:
    """Let an agent ask, kill its worker as soon as so many children run, and start another."""
    workers = [await asyncio.to_thread(spawn, f"{_AGENTS}:parents") for _ in range(2)]
    task = await submitter.start(agent, prompt)

    async def all_began() -> bool:
        known = children(await task.entries())
        logs = [await log_of(submitter, key) for key in known.values()]
        return len(logs) == request and all(len(log) > 2 for log in logs)

    await eventually(all_began)
    held = await task.held()
    victim: WorkerProcess = next(w for w in workers if held.worker.startswith(w.id))
    victim.kill()
    return task


async def _in_attempt(task: Task, attempt: int) -> bool:
    return (await task.last()).stamp.attempt == attempt


@pytest.mark.usefixtures("helpers")
async def test_children_of_a_killed_parent_run_once_though_it_delegates_in_another_order(
    submitter: TaskSubmitter, spawn: Spawn, runs: Runs, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    task = await killed_while_asking(
        submitter, spawn, "fan-out", f"a {gate}\nb {gate}\na {gate}", 3
    )
    await eventually(lambda: _in_attempt(task, 2))
    gate.touch()
    entries = await task.ended()
    assert attempts(entries) == [1, 2]
    assert entries[-1].stamp.state == COMPLETED
    whole = "{0} begins, {0} ends."
    assert answer(entries) == " ".join([whole.format("a"), whole.format("a"), whole.format("b")])
    assert sorted(runs()) == [f"a {gate} 1", f"a {gate} 1", f"b {gate} 1"]
    for key in children(entries).values():
        generations = relayed(entries, key.task)
        assert generations == sorted(set(generations)), "relayed twice, or in another order"
        assert generations[-1] == (await log_of(submitter, key))[-1].last_generation


@pytest.mark.usefixtures("helpers")
async def test_a_child_that_the_last_attempt_did_not_ask_for_is_canceled(
    submitter: TaskSubmitter, spawn: Spawn, runs: Runs
) -> None:
    task = await killed_while_asking(submitter, spawn, "nondeterministic", "a 60\nb 0", 1)
    entries = await task.ended()
    first, second = children(entries).values()
    assert answer(entries) == "b begins, b ends."
    assert [await ends(submitter, key) for key in (first, second)] == [CANCELED, COMPLETED]
    assert runs() == ["a 60 1", "b 0 1"]


async def test_a_child_whose_own_worker_is_killed_is_begun_again_and_its_parent_gets_it_whole(
    submitter: TaskSubmitter, spawn: Spawn, helpers: WorkerProcess, file: Path, runs: Runs
) -> None:
    gate = file.with_name("gate")
    await asyncio.to_thread(spawn, f"{_AGENTS}:parents")
    other = await asyncio.to_thread(spawn, f"{_AGENTS}:children", recorded_runs=file)
    task = await submitter.start("fan-out", f"a {gate}")
    key = await child_of(task)
    child = Task(submitter.bus, key, "", "")
    await child.reaches(3)
    held = await child.held()
    next(w for w in (helpers, other) if held.worker.startswith(w.id)).kill()
    gate.touch()
    entries = await task.ended()
    assert answer(entries) == "a begins, a ends."
    assert runs() == [f"a {gate} 1", f"a {gate} 2"]
    assert [one["attempt"] for one in child_reports(entries) if "attempt" in one] == [2]


@pytest.mark.usefixtures("helpers")
async def test_a_parent_killed_while_it_cancels_its_children_is_canceled_by_its_successor(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    workers = [await asyncio.to_thread(spawn, f"{_AGENTS}:parents") for _ in range(2)]
    task = await submitter.start("two-children", f"a {tmp_path / 'never'}\n\n{tmp_path / 'gate'}")

    async def all_began() -> bool:
        known = children(await task.entries()).values()
        return len(known) == 2 and all([len(await log_of(submitter, key)) > 2 for key in known])

    await eventually(all_began)
    held = await task.held()
    assert await task.ask("cancel") is not None
    helper = next(k for k in children(await task.entries()).values() if k.agent == "child")
    assert await ends(submitter, helper) == CANCELED
    next(w for w in workers if held.worker.startswith(w.id)).kill()
    (tmp_path / "gate").touch()
    entries = await task.ended()
    assert entries[-1].stamp.state == CANCELED


@pytest.mark.usefixtures("helpers")
async def test_an_attempt_that_others_have_taken_over_from_cancels_none_of_their_children(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    gate, answered = tmp_path / "gate", tmp_path / "answered"
    workers = [await asyncio.to_thread(spawn, f"{_AGENTS}:parents") for _ in range(2)]
    task = await submitter.start("fails-once", f"a {answered}\n{gate}")
    child = await child_of(task)
    await Task(submitter.bus, child, "", "").reaches(3)
    held = await task.held()
    frozen = next(w for w in workers if held.worker.startswith(w.id))
    await asyncio.to_thread(frozen.freeze)
    await eventually(lambda: _in_attempt(task, 2))
    gate.touch()
    frozen.thaw()
    await eventually(lambda: _has_written(frozen, "another worker has taken over"))
    answered.touch()
    entries = await task.ended()
    assert await ends(submitter, child) == COMPLETED
    assert (answer(entries), attempts(entries)) == ("a begins, a ends.", [1, 2])


async def _has_written(worker: WorkerProcess, words: str) -> bool:
    return words in worker.output()


@pytest.mark.usefixtures("helpers")
async def test_a_canceled_parent_without_a_worker_takes_its_children_with_it(
    submitter: TaskSubmitter, spawn: Spawn, runs: Runs
) -> None:
    task = await killed_while_asking(submitter, spawn, "fan-out", "a 60\nb 60", 2)
    # The other worker has not taken over yet: nobody answers, so the gateway ends the task.
    assert await cancel(task) == CANCELED
    for key in children(await task.entries()).values():
        assert await ends(submitter, key) == CANCELED
    assert len(runs()) == 2
