"""Somebody who does what a document says, in a folder and with an installed environment."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.forked_process import HEADRACE
from tests.support.pids import living
from tests.support.pseudo_terminal import PseudoTerminal, at_terminal
from tests.support.stack import Stack
from tests.support.terminal import CommandResult, enter_in
from tests.support.waiting import until

_TIMEOUT = 250
_NOT_THEIRS = ("HEADRACE_", "PYTEST", "PYTHON", "VIRTUAL_ENV")
"""How the variables begin that only these tests have."""


class Reader:
    """One reader, whose commands are those of `environment`, as after ``source bin/activate``."""

    def __init__(self, folder: Path, environment: Path, *, is_forked: bool = False) -> None:
        """Begin in `folder`, which is made if it is missing.

        With `is_forked`, ``headrace`` is that of the tests' own environment, and a fork: it starts
        in a tenth of the processor time.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._bin = environment / "bin"
        self._is_forked = is_forked
        self.stack: Stack | None = None
        """The `headrace dev` in another terminal."""

    def save(self, files: Mapping[str, str]) -> None:
        """Save files, by name; return once `headrace dev`, if it runs, serves nothing older."""
        replaced = self.stack.pids("worker") if self.stack is not None and files else []
        for name, content in files.items():
            (self.folder / name).write_text(content)
        until(lambda: living(replaced) == [], f"the workers from before {[*files]} have ended")

    def serve(self, command: str, **environment: str) -> Stack:
        """Enter a ``headrace dev …`` in another terminal, on free ports; it ends with `leave`."""
        program, dev, *arguments = shlex.split(command)
        assert (program, dev) == ("headrace", "dev")
        self.leave()
        self.stack = Stack(
            self.folder,
            arguments=("--ephemeral", "--port", "0", *arguments),
            program=[HEADRACE if self._is_forked else self._bin / program],
            environment=environment,
        )
        return self.stack.start()

    def leave(self) -> None:
        """Press Ctrl-C in the terminal of `headrace dev`, if it runs."""
        if self.stack is not None:
            stack, self.stack = self.stack, None
            assert stack.stop(signal.SIGINT) == 0, stack.log()

    def enter(self, command: str) -> CommandResult:
        """Enter a command whose output goes to a file, and return what came of it."""
        program, *arguments = shlex.split(command)
        if self._is_forked and program == HEADRACE.name:
            return enter_in(self.folder, *arguments, **self._environment())
        own = self._bin / program
        done = subprocess.run(
            [own if own.exists() else program, *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def at_terminal(self, command: str) -> Iterator[PseudoTerminal]:
        """Enter a ``headrace …`` on a terminal."""
        program, *arguments = shlex.split(command)
        own = [str(self._bin / program)]
        with at_terminal(*arguments, program=own, **self._environment()) as terminal:
            yield terminal

    def _environment(self) -> dict[str, str]:
        kept = {key: text for key, text in os.environ.items() if not key.startswith(_NOT_THEIRS)}
        url = {"HEADRACE_URL": self.stack.url} if self.stack is not None else {}
        return {**kept, **url, "PATH": f"{self._bin}:{os.environ['PATH']}"}
