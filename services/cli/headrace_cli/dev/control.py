"""The control socket: how gateways of a development stack list and kill the stack's processes.

A request is one line of JSON: ``{}`` asks for the processes, ``{"kill": {"role", "index"}}`` kills
one first. The response is one line too: ``{"processes": [...]}`` or ``{"error": "..."}``. The
socket is in a folder of mode 0700, so only programs of this user can connect.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace_cli.dev.child_process import ChildProcess
from headrace_cli.dev.supervisor import NotRunning, Supervisor

SOCKET = "control"
"""Name of the socket in the stack's temporary folder."""

_TIMEOUT = 5.0
"""Seconds for a client to send its request."""

_SERVES = re.compile(r"\b(worker-[0-9a-f]{8}) serves ")
"""Matches the line that a worker logs at its start."""


class WorkerIds:
    """The ids with which workers sign what they write to logs, from the lines that they print."""

    def __init__(self) -> None:
        """Know none."""
        self._ids: dict[str, str] = {}

    def note(self, name: str, line: str) -> None:
        """Read a line of the process `name`."""
        if name.startswith("worker-") and (found := _SERVES.search(line)):
            self._ids[name] = found[1]

    def id_of(self, name: str) -> str | None:
        """Return the id of the worker that runs as the process `name`; None if it is unknown."""
        return self._ids.get(name)


@asynccontextmanager
async def control_socket(path: Path, supervisor: Supervisor, ids: WorkerIds) -> AsyncIterator[None]:
    """Answer requests about the processes of `supervisor` at `path` during the block."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                line = await reader.readline()
            writer.write(json.dumps(_answer(line, supervisor, ids)).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # The client has left, or has sent no line.
        finally:
            writer.close()

    try:
        server = await asyncio.start_unix_server(respond, path)
    except OSError:  # Such as a path that is too long for a socket: the stack works without.
        yield
        return
    try:
        yield
    finally:
        server.close()


def _answer(line: bytes, supervisor: Supervisor, ids: WorkerIds) -> dict[str, Any]:
    try:
        if target := json.loads(line).get("kill"):
            supervisor.kill(target["role"], target["index"])
    except NotRunning as error:
        return {"error": str(error)}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {"error": 'not a request: send {} or {"kill": {"role": ..., "index": ...}}'}
    return {"processes": [_shown(child, ids) for child in supervisor.children]}


def _shown(child: ChildProcess, ids: WorkerIds) -> dict[str, Any]:
    return {
        "role": child.spec.role,
        "index": child.spec.index,
        "pid": child.pid,
        "port": child.spec.port,
        "running": child.is_running,
        "worker": ids.id_of(child.spec.name),
    }
