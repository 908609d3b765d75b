"""The control socket of a development stack, with processes to kill."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace_cli.dev.child_process import ChildSpec
from headrace_cli.dev.control import WorkerIds, control_socket
from headrace_cli.dev.supervisor import Supervisor
from tests.support.waiting import eventually

type Json = dict[str, Any]

_COMMAND = (
    sys.executable,
    "-c",
    "import time; print('worker-0a1b2c3d serves counter', flush=True); time.sleep(600)",
)
_UNKNOWN = "is not running; running processes: worker-0"


@pytest.fixture
async def socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Path]:
    """The socket of a stack of one process."""
    # The path of a socket has a maximum length, and that of a test's folder has none.
    monkeypatch.chdir(tmp_path)
    path, ids = Path("control"), WorkerIds()
    supervisor = Supervisor(ids.note, lambda: None, restart=True, startup_timeout=60)
    supervisor.settle()
    await supervisor.start(ChildSpec("worker", 0, _COMMAND))
    async with control_socket(path, supervisor, ids):
        yield path
    await supervisor.end()


async def sent(socket: Path, line: bytes) -> Json:
    """Return the answer to a line."""
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        writer.write(line + b"\n")
        answer: Json = json.loads(await reader.readline())
    finally:
        writer.close()
        await writer.wait_closed()
    return answer


async def process(socket: Path) -> Json:
    """Return the stack's process as it is now."""
    (one,) = (await sent(socket, b"{}"))["processes"]
    return dict(one)


async def test_a_process_is_listed_with_what_its_worker_calls_itself(socket: Path) -> None:
    async def is_known() -> bool:
        return bool((await process(socket))["worker"])

    await eventually(is_known, "the worker has printed its id")
    one = await process(socket)
    os.kill(one.pop("pid"), 0)
    assert one == {
        "role": "worker",
        "index": 0,
        "port": None,
        "running": True,
        "worker": "worker-0a1b2c3d",
    }


async def test_a_killed_process_is_started_again(socket: Path) -> None:
    before = (await process(socket))["pid"]
    await sent(socket, b'{"kill": {"role": "worker", "index": 0}}')

    async def is_replaced() -> bool:
        now = await process(socket)
        return bool(now["running"] and now["pid"] != before)

    await eventually(is_replaced, "the process is replaced")
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"kill": {"role": "worker", "index": 1}}', f"worker-1 {_UNKNOWN}"),
        (b'{"kill": {"role": "../init", "index": 0}}', f"../init-0 {_UNKNOWN}"),
        (b'{"kill": {"role": "worker", "index": "0; kill 1"}}', f"worker-0; kill 1 {_UNKNOWN}"),
        (b'{"kill": {"role": "worker"}}', "not a request"),
        (b'{"kill": 1}', "not a request"),
        (b"[]", "not a request"),
        (b"\xff", "not a request"),
    ],
)
async def test_what_is_no_process_of_the_stack_is_not_killed(
    socket: Path, line: bytes, error: str
) -> None:
    before = (await process(socket))["pid"]
    assert (await sent(socket, line))["error"].startswith(error)
    now = await process(socket)
    assert (now["pid"], now["running"]) == (before, True)
