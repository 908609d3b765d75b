"""The examples do what they say."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from headrace.model import parts
from tests.integration.worker.conftest import Spawn
from tests.integration.worker.test_demo_agents import folded
from tests.integration.worker.test_sleeping import said
from tests.integration.worker.test_waits import asleep
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
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


async def test_an_order_is_delivered_once_it_is_paid_though_its_worker_is_killed(
    submitter: TaskSubmitter, spawn: Spawn, nats_server: NatsProcess, names: dict[str, str]
) -> None:
    async with (
        running(own_settings(nats_server.url, **names)) as base,
        httpx.AsyncClient(timeout=60, verify=NO_TLS) as http,
    ):
        first = await asyncio.to_thread(spawn, "examples.wait_for_payment:shop", public_url=base)
        task = await submitter.start("shop", "Nails")
        await asleep(task)
        asked = said(await task.entries())
        await asyncio.to_thread(first.kill)
        paid = await http.post(asked.split()[-1], json={"amount": 500})
        assert paid.status_code == 202
        await asyncio.to_thread(spawn, "examples.wait_for_payment:shop", public_url=base)
        assert await answered(task) == f"{asked}Thanks for 500. Nails is on its way."


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
