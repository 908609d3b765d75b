"""Run ``headrace`` as an operator does, who is at no terminal."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support import forked_process
from tests.support.forked_process import HEADRACE

_TIMEOUT = 120


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: str
    err: str


def enter(*arguments: str, typed: str = "", **environment: str) -> CommandResult:
    """Return how ``headrace ARGUMENTS`` ended; its stdin has what is `typed`.

    Of the variables of the fleet it finds only those of `environment`.
    """
    return enter_in(None, *arguments, typed=typed, **environment)


def enter_in(
    folder: Path | None, *arguments: str, typed: str = "", **environment: str
) -> CommandResult:
    """Return how ``headrace ARGUMENTS`` ended in a folder, or in any."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    command, given = [str(HEADRACE), *arguments], own | environment
    if forked_process.can_fork(command, given):
        return CommandResult(*forked_process.run_forked(command, typed, given, _TIMEOUT, folder))
    done = subprocess.run(
        command,
        cwd=folder,
        env=given,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


class Terminal:
    """Runs commands on the streams and subjects of one test."""

    def __init__(self, nats_url: str, names: Mapping[str, str]) -> None:
        """Run them in an environment that names the fleet of `names`."""
        settings = {"nats_url": nats_url, **names}
        self._environment = {f"HEADRACE_{key.upper()}": v for key, v in settings.items()}

    async def run(self, *arguments: str, typed: str | None = None) -> CommandResult:
        """Return how ``headrace ARGUMENTS`` ended; its stdin has what is `typed`."""
        return await asyncio.to_thread(enter, *arguments, typed=typed or "", **self._environment)
