"""The examples do what they say."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from headrace.model import parts
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_demo_agents import folded
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import until
from tests.support.worker_process import WorkerProcess

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


async def answered(task: Task) -> str:
    artifacts = (await folded(task))["artifacts"]
    return "".join(parts.text_of(artifact["parts"]) for artifact in artifacts)


async def test_hello_greets(submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path) -> None:
    worker = await asyncio.to_thread(_in_folder_with, "hello.py", spawn, tmp_path)
    task = await submitter.start("hello", "Ada")
    assert await answered(task) == "Hello, Ada!"
    assert worker.is_running


async def test_an_order_is_charged_once_although_its_worker_is_killed(
    submitter: TaskSubmitter, spawn: Spawn, tmp_path: Path
) -> None:
    payments = tmp_path / "payments.db"
    payments.touch()
    for folder in (tmp_path / "worker-0", tmp_path / "worker-1"):
        folder.mkdir()
        (folder / payments.name).symlink_to(payments)
    target = "examples.charge_once:shop"
    first = await asyncio.to_thread(spawn, target)
    tasks = [await submitter.start("shop", "nails") for _ in range(5)]
    await asyncio.to_thread(until, lambda: charges(payments), "an order is charged")
    await asyncio.to_thread(first.kill)
    await asyncio.to_thread(spawn, target)
    answers = [await answered(task) for task in tasks]
    assert {answer.partition("-")[0] for answer in answers} == {"nails costs 5.00.\nPaid: R"}
    assert len(set(answers)) == charges(payments) == 5


def charges(payments: Path) -> int:
    """Return the number of the provider's charges so far."""
    with closing(sqlite3.connect(payments)) as books:
        try:
            [(number,)] = books.execute("SELECT count(*) FROM charges")
        except sqlite3.OperationalError:
            return 0  # It has no table yet.
    return int(number)


def _in_folder_with(example: str, spawn: Spawn, folder: Path) -> WorkerProcess:
    """Start a worker as a user would, where the example's file lies."""
    (folder / "worker-0").mkdir()
    shutil.copy(_EXAMPLES / example, folder / "worker-0" / example)
    return spawn("hello:hello")
