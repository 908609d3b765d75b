"""`headrace dev` as a user runs it: a separate process with its own data folder."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace_cli.dev import dev_file
from headrace_cli.dev.dev_file import DevFile, Process, Role
from tests.support.forked_process import HEADRACE, ForkedProcess, start_service
from tests.support.pids import freeze
from tests.support.waiting import until

BASIC_AGENTS = "headrace.demo:agents"
"""Echo, assistant and counter, which are enough for most: each agent has a queue, from which each
worker pulls, and all of the usual ones double what an idle stack takes."""

ANEW = (sys.executable, "-m", "headrace_cli")
"""The program of a stack of which nothing is forked, to measure it or to find its commands."""

_READY = "ready "
_STOP_TIMEOUT = 60.0


class Stack:
    """One development stack on free ports. Its methods block."""

    def __init__(  # noqa: PLR0913  # a stack has that many sizes
        self,
        folder: Path,
        *,
        gateways: int | None = None,
        workers: int | None = None,
        task_states: int | None = None,
        triggers: int = 0,
        agents: str | None = None,
        arguments: Sequence[str] = ("--ephemeral", "--port", "0"),
        environment: Mapping[str, str] | None = None,
        program: Sequence[str | Path] = (HEADRACE,),
    ) -> None:
        """Make the stack that is to be, with `folder` as its current folder and its data's."""
        flags = {
            "--gateways": gateways,
            "--workers": workers,
            "--task-states": task_states,
            # Most tests need none, and each costs as much processor time as a worker's start.
            "--triggers": triggers,
            "--agents": agents,
        }
        self._command = [*map(str, program), "dev", *arguments]
        for flag, value in flags.items():
            self._command += [] if value is None else [flag, str(value)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        usual = {"HEADRACE_DATA_DIR": "data", "HEADRACE_STARTUP_TIMEOUT": "180"}
        self.environment = inherited | usual | dict(environment or {})
        """The variables of its processes."""
        self.folder = folder
        self.data_dir = folder / self.environment["HEADRACE_DATA_DIR"]
        self.url = ""
        self.imports: Sequence[str] = ()
        """Modules that its agents import, which takes seconds: its forks find them imported."""
        self._output = folder
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    def start(self, timeout: float = 200.0) -> Self:
        """Start it and return when it says that it is ready.

        Raises:
            AssertionError: it ended, or said nothing in `timeout` seconds.
        """
        self.launch()
        until(
            lambda: self._is_ready() or self.exit_code() is not None, "the stack is ready", timeout
        )
        assert self.url, f"the stack ended with exit code {self.exit_code()}:\n{self.log()}"
        return self

    def launch(self) -> Self:
        """Start it and return at once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.url = ""
        self._output = self.folder / f"dev-{secrets.token_hex(4)}.out"
        self._process = start_service(
            self._command,
            self._log,
            stdout=self._output,
            folder=self.folder,
            environment=self.environment,
            imports=self.imports,
        )
        return self

    @property
    def said(self) -> list[str]:
        """The lines that it wrote to stdout since it was launched."""
        whole, _, _ = self._output.read_text(errors="replace").rpartition("\n")
        return [line.rstrip() for line in whole.splitlines()]

    @property
    def is_launched(self) -> bool:
        """Whether there is, or was, a process."""
        return self._process is not None

    @property
    def gateways(self) -> list[str]:
        """The gateways' URLs."""
        return [f"http://127.0.0.1:{p['port']}" for p in self.processes("gateway")]

    @property
    def pid(self) -> int:
        """The process id of `headrace dev` itself."""
        return self._running().pid

    def dev(self) -> DevFile:
        """Return what its `dev.json` says now."""
        content = dev_file.read(self.data_dir)
        assert content is not None, f"no dev.json in {self.data_dir}"
        return content

    def processes(self, role: Role | None = None) -> list[Process]:
        """Return its processes, those of `role` if given."""
        return [p for p in self.dev()["processes"] if role in (None, p["role"])]

    def pids(self, role: Role | None = None) -> list[int]:
        """Return its processes' ids, those of `role` if given, by index."""
        return [p["pid"] for p in self.processes(role)]

    def kill(self, role: Role, index: int = 0, number: int = signal.SIGKILL) -> int:
        """Send a signal to one process and return its pid; SIGSTOP has taken effect by then."""
        pid = self.pids(role)[index]
        if number == signal.SIGSTOP:
            freeze(pid)
        else:
            os.kill(pid, number)
        return pid

    def until_restarted(self, role: Role, index: int, old_pid: int, timeout: float = 90.0) -> int:
        """Return the new pid of the process that was `old_pid` once `dev.json` names it."""
        what = f"{role}-{index} is restarted"
        until(lambda: self.pids(role)[index] != old_pid, what, timeout)
        return self.pids(role)[index]

    def log(self) -> str:
        """Return what it wrote to stderr."""
        return self._log.read_text(errors="replace")

    def exit_code(self) -> int | None:
        """Return how it ended; None if it runs."""
        return self._running().poll()

    def wait(self, timeout: float = 200.0) -> int:
        """Return how it ended once it has."""
        try:
            until(lambda: self.exit_code() is not None, "the stack has ended", timeout)
        except AssertionError as late:
            late.add_note(self.log())
            raise
        return self._running().wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal and return how it ended."""
        process = self._running()
        process.send_signal(number)
        try:
            return process.wait(_STOP_TIMEOUT)
        finally:
            self.close()

    def close(self) -> None:
        """Kill what is left of it."""
        process = self._running()
        process.kill()
        process.wait(_STOP_TIMEOUT)

    def __enter__(self) -> Self:
        return self if self._process else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self.folder / "dev.log"

    def _running(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None, "the stack was not started"
        return self._process

    def _is_ready(self) -> bool:
        for line in self.said:
            if line.startswith(_READY):
                self.url = line.removeprefix(_READY)
        return bool(self.url)
