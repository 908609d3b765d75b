"""Run commands as forks of a process that has imported them: the program that forks.

Run as a script, with a socket as stdin: each line is a `Request` as JSON, each answer a number. A
process that starts anew spends most of its start on imports, which is most of what a test of it
costs. `tests.support.forked_process` is the other end.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TypedDict

MODULES = {
    "gateway": "headrace_gateway.main",
    "worker": "headrace_worker.main",
    "task-state": "headrace_task_state.main",
    "triggers": "headrace_triggers.main",
    "dead": "headrace_cli.dead.command",
    "dev": "headrace_cli.dev.command",
}
"""What each command imports first, and all that it needs with it."""

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None)


class Start(TypedDict):
    """What a fork is to be."""

    command: list[str]
    """The console script's path, the command's name and its arguments."""
    environment: dict[str, str]
    folder: str | None
    files: list[str]
    """What it reads as stdin, and what it adds its stdout and its stderr to."""
    imports: list[str]
    """More modules that it is to find imported; its successors find them, too."""


class Request(TypedDict):
    """One of the two: start a process and answer its id; answer an ended one's exit code."""

    start: Start | None
    reap: int | None


def serve(requests: socket.socket) -> Start | None:
    """Answer requests until there are no more: None; in each fork, return what it is to be."""
    with requests, requests.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            request: Request = json.loads(line)
            if start := request["start"]:
                for module in (MODULES[start["command"][1]], *start["imports"]):
                    importlib.import_module(module)
                gc.freeze()
                answer = os.fork()
                if answer == 0:
                    return start
            else:
                assert request["reap"] is not None
                answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
            print(answer, file=lines, flush=True)
    return None


def become(start: Start, parent: int) -> None:
    """Make this fork of `parent` what ``execve`` would have made of it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It ended before the kernel watched it.
        os._exit(1)
    os.setpgid(0, 0)
    _take(start["files"])
    if start["folder"] is not None:
        os.chdir(start["folder"])
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update(coerced)  # As Python sets it where no locale is given.
    os.environ.update(start["environment"])
    given = start["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.argv = list(start["command"])
    sys.path[:1] = [os.path.dirname(sys.argv[0]), *filter(None, given)]  # noqa: PTH120  # a string
    importlib.invalidate_caches()


def _take(files: Sequence[str]) -> None:
    for number, file in enumerate(files):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if number else os.O_RDONLY
        opened = os.open(file, flags, 0o666)
        os.dup2(opened, number)
        os.close(opened)


def main() -> None:
    """Fork until stdin closes; in a fork, be a command until it ends."""
    server = os.getpid()
    start = serve(socket.socket(fileno=os.dup(0)))
    if start is not None:
        become(start, server)
        from headrace_cli.main import main as command_line  # noqa: PLC0415  # not before its path

        sys.exit(command_line())


if __name__ == "__main__":
    main()
