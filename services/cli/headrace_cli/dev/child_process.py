"""One process of the development stack: its start, output and end."""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from headrace_cli.dev import die_with_parent
from headrace_cli.dev.dev_file import Role

_CHUNK = 65_536
_OUTPUT_TIMEOUT = 0.5
"""Seconds for which output is read after the process ended: a grandchild may hold the pipe open."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start a process."""

    role: Role
    index: int
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to this process's own."""
    port: int | None = None
    grpc_port: int | None = None
    metrics: str | None = None
    """HOST:PORT of its metrics, if they are scraped."""
    timer_slack: int = 0
    """Nanoseconds by which its timers may be late; 0: as the system has it."""
    is_shown: Callable[[str], bool] = lambda _: True
    """Which of its lines are worth showing."""

    @property
    def name(self) -> str:
        """The child's name in the log."""
        return f"{self.role}-{self.index}"


class ChildProcess:
    """A process made from a `ChildSpec`; it can be started again after it ended."""

    def __init__(self, spec: ChildSpec, show: Callable[[str, str], None]) -> None:
        """Prepare the child; `show` takes its name and each line that it prints."""
        self.spec = spec
        self.last_line = ""
        self._show = show
        self._process: Process | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The process id, also of one that has ended."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self, **variables: str) -> None:
        """Start the process, with `variables` for this start only.

        It has its own process group: Ctrl-C at the terminal must not reach it.
        """
        output, their_end = os.pipe()
        # Not asyncio's pipe: with that one `wait` waits for grandchildren that hold it open, too.
        lines, pipe = await _reader(output)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *die_with_parent.wrapped(self.spec.command, self.spec.timer_slack),
                stdin=DEVNULL,
                stdout=their_end,
                stderr=STDOUT,
                env={**os.environ, **self.spec.environment, **variables},
                process_group=0,
            )
        finally:
            os.close(their_end)
        self._listening = asyncio.create_task(self._listen(lines, pipe))

    async def ended(self) -> int:
        """Wait for the process to end, end its own children, and return its exit code."""
        process = self._started()
        code = await process.wait()
        await self._clean_up(process.pid)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process if it runs."""
        if self.is_running:
            with suppress(ProcessLookupError):
                self._started().send_signal(number)

    async def end(self, grace: float) -> None:
        """End the process if it runs; kill it after `grace` seconds."""
        if not self.is_running:
            return
        process = self._started()
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), grace)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await self._clean_up(process.pid)

    def _started(self) -> Process:
        if self._process is None:
            raise RuntimeError(f"{self.spec.name} was not started")
        return self._process

    async def _clean_up(self, group: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        if self._listening is not None:
            await asyncio.wait([self._listening], timeout=_OUTPUT_TIMEOUT)
            self._listening.cancel()

    async def _listen(self, output: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        rest = b""
        try:
            while chunk := await output.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _CHUNK:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._on_line(line)
        finally:
            pipe.close()
        self._on_line(rest)

    def _on_line(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text and self.spec.is_shown(text):
            self.last_line = text
            self._show(self.spec.name, text)


async def _reader(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader, transport
