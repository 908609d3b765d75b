"""The examples do what they say."""

import asyncio
import shutil
from pathlib import Path

from headrace.model import parts
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_demo_agents import folded
from tests.support.task_submitter import Task, TaskSubmitter
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


def _in_folder_with(example: str, spawn: Spawn, folder: Path) -> WorkerProcess:
    """Start a worker as a user would, where the example's file lies."""
    (folder / "worker-0").mkdir()
    shutil.copy(_EXAMPLES / example, folder / "worker-0" / example)
    return spawn("hello:hello")
