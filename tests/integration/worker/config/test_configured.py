"""A worker with a headrace.yaml: it serves what the file says, and follows it."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from headrace.directory import Directory
from headrace.model.task import COMPLETED
from tests.architecture.tree import ROOT
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_demo_agents import folded
from tests.support.task_submitter import TaskSubmitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

ECHO = "{type: python, target: 'headrace.demo:echo'}"
COUNTER = "{type: python, target: 'headrace.demo:counter', limits: {concurrency: 2}}"
GATED = "{type: python, target: 'tests.support.agents:gated', limits: {concurrency: 2}}"


class File:
    """A headrace.yaml that changes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "headrace.yaml"

    def declare(self, **agents: str) -> None:
        """Declare `agents`; whole or not at all, as an editor writes it."""
        lines = [f"  {name}: {section}" for name, section in agents.items()]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(["agents:", *lines]))
        new.rename(self.path)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


async def started(spawn: Spawn, file: File) -> WorkerProcess:
    return await asyncio.to_thread(spawn, ["--config", str(file.path)])


async def has_written(worker: WorkerProcess, words: str) -> bool:
    return words in worker.output()


async def test_agents_come_and_go_with_the_file(
    submitter: TaskSubmitter, spawn: Spawn, file: File
) -> None:
    file.declare(repeater=ECHO)
    worker = await started(spawn, file)
    assert (await folded(await submitter.start("repeater", "hello")))["status"][
        "state"
    ] == COMPLETED
    file.declare(repeater=ECHO, tally=COUNTER)
    await eventually(lambda: has_written(worker, "serves repeater, tally"))
    assert (await folded(await submitter.start("tally", "2")))["status"]["state"] == COMPLETED
    file.declare(tally=COUNTER)
    await eventually(lambda: has_written(worker, "reloaded: " + worker.id + " serves tally"))
    left = await submitter.start("repeater", "anybody?")
    directory = Directory(submitter.bus)
    await directory.start()
    try:
        assert (directory.available("repeater"), directory.available("tally")) == (False, True)
    finally:
        await directory.stop()
    assert len(await left.entries()) == 1, "it waits for a worker that serves repeaters"


async def test_the_example_is_served(submitter: TaskSubmitter, spawn: Spawn) -> None:
    example = ROOT / "examples" / "headrace.yaml"
    worker = await asyncio.to_thread(spawn, ["--config", str(example)])
    assert await has_written(worker, "serves assistant, repeater")
    assert (await folded(await submitter.start("repeater", "hello")))["status"][
        "state"
    ] == COMPLETED
    directory = Directory(submitter.bus)
    await directory.start()
    try:
        card = directory.card("assistant")
    finally:
        await directory.stop()
    assert card is not None
    assert (card.title, card.icon_url) == ("Assistant", "https://agents.example/assistant.png")
    assert card.skills[0]["examples"] == ["Why is the sky blue?"]


async def test_a_run_at_work_goes_on_when_its_agent_changes_or_goes(
    submitter: TaskSubmitter, spawn: Spawn, file: File, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    file.declare(tally=GATED, rest=GATED)
    worker = await started(spawn, file)
    tasks = [await submitter.start(name, str(gate)) for name in ("tally", "rest")]
    for task in tasks:
        await task.held()
    file.declare(tally=GATED.replace("2", "7"))
    await eventually(lambda: has_written(worker, f"{worker.id} serves tally\n"))
    gate.touch()
    for task in tasks:
        found = await folded(task)
        assert found["status"]["state"] == COMPLETED
        text = "".join(part["text"] for part in found["artifacts"][0]["parts"])
        assert text == "before after"
        assert max(entry.stamp.attempt for entry in await task.entries()) == 1


async def test_a_file_that_can_not_be_used_changes_nothing(
    submitter: TaskSubmitter, spawn: Spawn, file: File
) -> None:
    file.declare(repeater=ECHO)
    worker = await started(spawn, file)
    for wrong, received in (
        ("{type: python}", "headrace.yaml:2: agents.repeater.target: Field required"),
        (
            "{type: python, target: 'no.such:thing'}",
            "headrace.yaml:2: agents.repeater: no module named no.such",
        ),
        (
            "{type: python, target: 'tests.support.exits_at_import:x'}",
            "headrace.yaml:2: agents.repeater: SystemExit: not to be imported",
        ),
        (f"{ECHO}\n  repeater: {ECHO}", "headrace.yaml:3: agents.repeater: is declared twice"),
    ):
        file.declare(repeater=wrong)
        await eventually(partial(has_written, worker, f"the old ones stay in use: {received}"))
    file.path.unlink()
    await eventually(lambda: has_written(worker, "No such file"))
    assert (await folded(await submitter.start("repeater", "hello")))["status"][
        "state"
    ] == COMPLETED


async def test_what_has_no_effect_is_logged_as_a_warning(
    submitter: TaskSubmitter, spawn: Spawn, file: File
) -> None:
    assert submitter.bus
    talker = "{model: {model: m, base_url: 'http://127.0.0.1:1'}, reasoning: {engine: x}}"
    file.declare(talker=talker)
    worker = await started(spawn, file)
    expected = "WARNING headrace.yaml:2: agents.talker.reasoning.engine: has no effect"
    assert await has_written(worker, expected)


async def test_a_worker_whose_file_is_wrong_does_not_start(spawn: Spawn, file: File) -> None:
    file.declare(repeater="{type: python, target: 'a:b', x: 1}")
    with pytest.raises(AssertionError) as ended:
        await started(spawn, file)
    assert "headrace.yaml:2: agents.repeater.x: unknown field; allowed: " in str(ended.value)
