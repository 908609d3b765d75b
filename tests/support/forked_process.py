"""Commands that are forked from a process which has imported them already.

Each process of the tests has one such fork server, from the first command on that it starts.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from threading import Lock

from tests.support import fork_server
from tests.support.fork_server import Request, Start
from tests.support.starting import start_process

HEADRACE = Path(sys.executable).with_name("headrace")
"""The console script that the tests' environment has installed."""

_ROOT = Path(__file__).resolve().parents[2]

_TIMEOUT = 60.0

_STARTING = Lock()


class ForkServer:
    """The program `tests.support.fork_server`, started at once; it ends with this process."""

    def __init__(self) -> None:
        """Start it, in an environment that has nothing for Python but what services get."""
        self._requests, theirs = socket.socketpair()
        self._log = Path(f"/proc/self/fd/{os.memfd_create('fork server')}")
        with theirs:
            self._process = start_process(
                # Not its folder first in the path, where libraries would find our modules.
                [sys.executable, "-P", fork_server.__file__],
                self._log,
                stdin=theirs.fileno(),
                environment={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(_ROOT),
                    "PYTHONUNBUFFERED": "1",
                    # Services set it before they import anything.
                    "PYDANTIC_DISABLE_PLUGINS": "true",
                },
            )
        self._lines = self._requests.makefile("rw", encoding="utf-8")
        self._one_at_a_time = Lock()

    def ask(self, request: Request) -> int:
        """Return the answer to `request`."""
        with self._one_at_a_time:
            print(json.dumps(request), file=self._lines, flush=True)
            answer = self._lines.readline()
        assert answer, f"the fork server ended:\n{self._log.read_text()}"
        return int(answer)

    def close(self) -> None:
        """End it, and what runs of its forks with it."""
        self._lines.close()
        self._requests.close()
        self._process.wait(_TIMEOUT)


class ForkedProcess:
    """One fork, with what the tests use of `subprocess.Popen`."""

    def __init__(self, server: ForkServer, start: Start) -> None:
        """Start it."""
        self._server = server
        self.pid = server.ask({"start": start, "reap": None})
        self.returncode: int | None = None
        self._descriptor = os.pidfd_open(self.pid)
        weakref.finalize(self, os.close, self._descriptor)
        self._reaping = Lock()

    def poll(self) -> int | None:
        """Return its exit code; None: it runs."""
        return self._exit_code(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        Raises:
            TimeoutExpired: it runs after `timeout` seconds.
        """
        code = self._exit_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        """Send it SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, if it runs."""
        self.send_signal(signal.SIGKILL)

    def _exit_code(self, timeout: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._descriptor, timeout):
            with self._reaping:
                if self.returncode is None:
                    self.returncode = self._server.ask({"start": None, "reap": self.pid})
        return self.returncode


def can_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a fork is what `command` would be, with nothing for its Python.

    Python reads its variables when it starts.
    """
    program, name, *_ = *command, ""
    return (
        sys.platform == "linux"
        and program == str(HEADRACE)
        and name in fork_server.MODULES
        and fork_server.is_heeded(environment)
    )


def start_service(
    command: Sequence[str],
    log: Path,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str],
    imports: Sequence[str] = (),
    stdout: Path | None = None,
) -> subprocess.Popen[bytes] | ForkedProcess:
    """Start `command` as `start_process` does, as a fork if it can be one.

    `imports` are modules that it needs besides those of the command. Its stdout is added to `log`,
    too, unless a file is given.
    """
    output = log if stdout is None else stdout
    for file in (log, output):
        file.touch()  # Who reads it now finds a file.
    if not can_fork(command, environment):
        with output.open("ab") as lines:
            return start_process(command, log, stdout=lines, folder=folder, environment=environment)
    start = Start(
        module="headrace_cli",
        command=list(command),
        modules=str(HEADRACE.parent),
        environment=dict(environment),
        folder=None if folder is None else str(folder),
        files=[os.devnull, str(output), str(log)],
        imports=list(imports),
    )
    return ForkedProcess(_server(), start)


def run_forked(
    command: Sequence[str],
    typed: str,
    environment: Mapping[str, str],
    timeout: float,
    folder: Path | None = None,
) -> tuple[int, str, str]:
    """Run the console script `command`; return its exit code, stdout and stderr.

    Its stdin has what is `typed`, and then ends.
    """
    with ExitStack() as stack:
        stdin, stdout, stderr = (
            stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)
        )
        stdin.write(typed)
        stdin.flush()
        start = Start(
            module="headrace_cli",
            command=list(command),
            modules=str(HEADRACE.parent),
            environment=dict(environment),
            folder=None if folder is None else str(folder),
            files=[f"/proc/{os.getpid()}/fd/{each.fileno()}" for each in (stdin, stdout, stderr)],
            imports=[],
        )
        process = ForkedProcess(_server(), start)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for each in (stdout, stderr):
            each.seek(0)
        return code, stdout.read(), stderr.read()


def _server() -> ForkServer:
    with _STARTING:
        return _only_server()


@cache
def _only_server() -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server


def _is_readable(descriptor: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))
