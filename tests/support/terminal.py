"""Run ``headrace`` as an operator does, on the streams and subjects of one test."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support import forked_process
from tests.support.forked_process import HEADRACE

_TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: str
    err: str


class Terminal:
    """Runs commands."""

    def __init__(self, nats_url: str, names: Mapping[str, str]) -> None:
        """Run them in an environment that names the fleet of `names`."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        settings = {"nats_url": nats_url, **names}
        self._environment = own | {f"HEADRACE_{key.upper()}": v for key, v in settings.items()}

    async def run(self, *arguments: str, typed: str | None = None) -> CommandResult:
        """Return how ``headrace ARGUMENTS`` ended; its stdin has what is `typed`."""
        command = [str(HEADRACE), *arguments]
        if forked_process.can_fork(command, self._environment):
            return CommandResult(
                *await asyncio.to_thread(
                    forked_process.run_forked, command, typed or "", self._environment, _TIMEOUT
                )
            )
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(_TIMEOUT):
            out, err = await process.communicate((typed or "").encode())
        return CommandResult(process.returncode or 0, out.decode(), err.decode())
