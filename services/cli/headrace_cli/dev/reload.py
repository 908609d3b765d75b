"""Reload on save: new workers with the code as it is now take over from the running ones.

A process is replaced rather than its modules: no run ever sees a part of the old code and a part
of the new. Active runs end in the old processes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from headrace_cli.dev.agents_code import forget_bytecode, saves
from headrace_cli.dev.child_process import ChildSpec
from headrace_cli.dev.supervisor import Supervisor
from headrace_cli.failures import CannotStart, Misconfigured


class Reloader:
    """Replaces the workers of a stack when their code is saved."""

    def __init__(
        self,
        supervisor: Supervisor,
        workers: Callable[[], Sequence[ChildSpec]],
        show: Callable[[str, str], None],
        declare: Callable[[], Awaitable[Sequence[str]]],
        *,
        timeout: float,
    ) -> None:
        """Prepare to replace the workers of `supervisor`.

        Args:
            supervisor: keeps the workers running.
            workers: returns how they are started now; raises `CannotStart` if the agents can't be
                found in their code.
            show: takes a name and a line.
            declare: applies what the code and its file declare besides agents; returns lines to
                show.
            timeout: seconds for new workers to get ready.
        """
        self._supervisor, self._workers, self._show = supervisor, workers, show
        self._declare, self._timeout = declare, timeout
        self._replacing: asyncio.Task[None] | None = None

    async def run(self, roots: list[Path], config: Path, ready: asyncio.Event) -> None:
        """Reload after each save of code below `roots` or of `config`, once `ready` is set."""
        try:
            async for files in saves(roots, config):
                # What starts now may have read one file before its save and another after.
                await self._abandon()
                forget_bytecode(files)
                self._replacing = asyncio.create_task(self._reload(files, ready))
        except Misconfigured as missing:
            self._show("headrace", str(missing))
        finally:
            await self._abandon()

    async def _abandon(self) -> None:
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.gather(self._replacing, return_exceptions=True)

    async def _reload(self, files: set[Path], ready: asyncio.Event) -> None:
        await ready.wait()
        try:
            await self._supervisor.replace(self._workers(), self._timeout)
        except CannotStart as error:
            self._show("headrace", f"not reloaded, the old code stays in use: {error}")
        else:
            self._show("headrace", f"reloaded {', '.join(sorted(one.name for one in files))}")
            for line in await self._declare():
                self._show("headrace", line)
