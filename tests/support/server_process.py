"""A server process that tests can kill, freeze and restart on the same port and data.

It is a process, or a container where those are asked for (`tests.support.containers`).
"""

import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support import containers
from tests.support.containers import ContainerProcess
from tests.support.forked_process import ForkedProcess
from tests.support.pids import freeze
from tests.support.starting import start_process
from tests.support.waiting import until

_TIMEOUT = 90.0


class ServerProcess(ABC):
    """One server. Its methods block; call them through ``asyncio.to_thread`` where a loop runs."""

    image: str | None = None
    """What it runs in where containers are asked for; None: it is always a process."""

    def __init__(self, name: str, folder: Path) -> None:
        """Make the server that is to be; it logs to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.folder = folder
        self.environment: Mapping[str, str] | None = None
        """All of its environment; None: this process's own."""
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | ContainerProcess | ForkedProcess | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Write what it needs and return how it is started."""

    @abstractmethod
    def answers(self) -> bool:
        """Tell whether it answers now."""

    @property
    def pid(self) -> int:
        """Its process id."""
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended since; a frozen one runs."""
        return self._process is not None and self._process.poll() is None

    def exit_code(self) -> int | None:
        """Return how it ended by itself; None if it runs, was never started or was ended."""
        return self._process.poll() if self._process is not None else None

    def start(self, *, wait: bool = True) -> Self:
        """Start it; return when it answers, or at once without `wait`."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs")
        self._process = self._launched()
        if wait:
            self.until_answers()
        return self

    def until_answers(self, timeout: float = _TIMEOUT) -> None:
        """Return when it answers."""
        until(lambda: not self.is_running or self.answers(), f"{self.name} answers", timeout)
        assert self.is_running, f"{self.name} ended:\n{self.log.read_text()[-2000:]}"

    def stop(self) -> None:
        """End it in good order, if it runs."""
        if self.is_running:
            self.thaw()
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as ``kill -9`` does, if it runs."""
        self._end(signal.SIGKILL)

    def restart(self, *, wait: bool = True) -> None:
        """Kill it and start it on the same port and data."""
        self.kill()
        self.start(wait=wait)

    def freeze(self) -> None:
        """Stop it in its tracks: its connections stay open and nothing is answered any more."""
        if isinstance(self._process, ContainerProcess):
            self._process.send_signal(signal.SIGSTOP)
        else:
            freeze(self.pid)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.kill()

    def _launched(self) -> subprocess.Popen[bytes] | ContainerProcess | ForkedProcess:
        if self.image is not None and containers.are_wanted():
            return ContainerProcess(self.image, self.command(), self.folder, self.log)
        return start_process(
            self.command(), self.log, folder=self.folder, environment=self.environment
        )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._signal(number)
            self._process.wait(_TIMEOUT)
            self._process = None
