"""The commands of the guides, run against a gateway."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import nats
import pytest

from headrace.client import Client, ClientTask
from headrace.model.task_report import TERMINAL_NAMES
from headrace_triggers.main import TriggersReplica
from headrace_triggers.settings import TriggersSettings
from headrace_worker.config.follow import FileSource
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker
from tests.architecture.tree import ROOT
from tests.support.document import blocks
from tests.support.fleet import Fleet
from tests.support.javascript import program
from tests.support.waiting import eventually

_HOST = "http://127.0.0.1:8080"


async def test_hectors_client_is_answered_in_its_form(fleet: Fleet) -> None:
    command = blocks(ROOT / "docs" / "hector.md", "sh")[0].code
    joined = command.replace("\\\n", "").replace(_HOST, fleet.gateways[0])
    name, *arguments = shlex.split(joined)
    sent = [program(name), "--silent", *arguments]
    answer = json.loads(subprocess.check_output(sent, timeout=60))  # noqa: ASYNC221  # it is short
    assert answer["response"]["content"] == [{"text": "Hello"}]
    assert answer["status"] == "completed"


_ORDERS = ROOT / "docs" / "guides" / "solace-agent-mesh.md"


@pytest.fixture
async def order_processing(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Path]:
    """The guide's files in a folder, its agent on a worker, and a triggers service."""
    files = [block for block in blocks(_ORDERS) if block.title]
    assert len(files) == 3
    for file in files:
        (tmp_path / file.title).write_text(file.code)
    monkeypatch.syspath_prepend(tmp_path)
    settings = {"nats_url": fleet.nats_url}
    agents = FileSource(tmp_path / "headrace.yaml", os.environ).load()
    worker = Worker(WorkerSettings.model_validate(settings | {"drain_seconds": 0}), agents)
    replica = TriggersReplica(TriggersSettings.model_validate(settings))
    async with AsyncExitStack() as stack:
        for one in (worker, replica):
            stack.push_async_callback(one.stop)
            await one.start()
        yield tmp_path
        async with Client(fleet.gateways[0]) as client:
            await client.triggers.delete("new-orders")
        connection = await nats.connect(fleet.nats_url)
        stack.push_async_callback(connection.close)
        await connection.jetstream(timeout=60).delete_stream("SHOP")


async def carried_out(folder: Path, *arguments: str) -> None:
    """Run Python with `arguments` in `folder`."""
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=folder)
    assert await process.wait() == 0


async def test_the_order_processor_of_agent_mesh_checks_the_orders_that_arrive(
    fleet: Fleet, order_processing: Path
) -> None:
    publishing = ["publish.py", fleet.nats_url]
    await carried_out(order_processing, *publishing)
    [command] = blocks(_ORDERS, "sh")
    name, *arguments = shlex.split(command.code)
    assert name == "headrace"
    chosen = ["--url", fleet.gateways[0]]
    async with Client(fleet.gateways[0]) as client:

        async def known() -> bool:
            return "order-processor" in {one.name for one in await client.agents()}

        await eventually(known, "the gateway knows the agent")
        await carried_out(order_processing, "-m", "headrace_cli", *arguments, *chosen)
        # What was published before the trigger was made begins nothing.
        await carried_out(order_processing, *publishing)

        async def ended() -> list[ClientTask]:
            found = [task async for task in client.tasks("order-processor")]
            return [task for task in found if task.state in TERMINAL_NAMES]

        [listed] = await eventually(ended, "the order is checked")
        task = await client.get("order-processor", listed.id)
    assert task.text == "Order 7 waits for nails."
    assert task.context == "customer-ann"
