"""Run the official JavaScript clients with Node in a separate process."""

import fcntl
import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, NoReturn, Self

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "e2e" / "javascript"

_OLDEST = 20
_INSTALL_TIMEOUT = 300
_RUN_TIMEOUT = 240


def run(script: str, order: Any, folder: Path = FOLDER) -> Any:  # noqa: ANN401  # JSON in, JSON out
    """Run a script of `folder` with `order` on stdin, and return what it printed.

    Skips the test where there is no Node, or no way to install the clients; in CI, fails it.
    """
    install(FOLDER)
    done = subprocess.run(
        [program("node"), script],
        cwd=folder,
        input=json.dumps(order).encode(),
        capture_output=True,
        timeout=_RUN_TIMEOUT,
        check=False,
    )
    # Node says nothing where it ends because what a script waits for can't come any more (13).
    ended = f"node {script} ended with {done.returncode}"
    assert done.returncode == 0, f"{ended}: {done.stderr.decode()}"
    return json.loads(done.stdout)


class Script:
    """A script that answers each line of stdin with one of stdout: orders of a module's tests.

    To load the clients takes Node a second of processor time, more than to do what is ordered.
    """

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        """Make the script that is to be; it starts with the first order."""
        self._name, self._folder = name, folder
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, order: Any) -> Any:  # noqa: ANN401  # JSON in, JSON out
        """Return what the script answers; a script that has ended by then starts anew.

        Skips the test where there is no Node, or no way to install the clients; in CI, fails it.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        limit = Timer(_RUN_TIMEOUT, process.kill)
        limit.start()
        try:
            answer = process.stdout.readline()
        finally:
            limit.cancel()
        assert answer, self._end()
        return json.loads(answer)

    def _start(self) -> subprocess.Popen[bytes]:
        install(FOLDER)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [program("node"), self._name], cwd=self._folder, stdin=pipe, stdout=pipe, stderr=pipe
        )
        return self._process

    def _end(self) -> str:
        """End it, and return how it ended and what it said."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        said = process.communicate()[1].decode()
        return f"node {self._name} ended with {process.returncode}: {said}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._end()


@functools.cache
def install(folder: Path) -> None:
    """Install what the lock file in `folder` pins, unless that has been done."""
    version = subprocess.run(
        [program("node"), "--version"], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    if int(version.removeprefix("v").partition(".")[0]) < _OLDEST:
        _cannot(f"needs Node {_OLDEST} or newer, not {version.strip()}")
    with (folder / "package-lock.json").open() as lock:
        # Of all processes that share the tests one installs, while the others wait.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed(folder):
            _install(folder)


def _is_installed(folder: Path) -> bool:
    """Tell whether all that is pinned is there; npm leaves out only what other systems need."""
    try:
        there = _packages(folder / "node_modules/.package-lock.json")
    except FileNotFoundError:
        return False
    needed = {
        path: package
        for path, package in _packages(folder / "package-lock.json").items()
        if path and not package.get("optional")
    }
    return all(there.get(path, {}).get("version") == one["version"] for path, one in needed.items())


def _packages(lock: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(lock.read_bytes())["packages"]
    return found


def _install(folder: Path) -> None:
    done = subprocess.run(
        [program("npm"), "ci", "--loglevel=error"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        _cannot(f"npm can't install what tests need: {done.stderr.strip()[-500:]}")


def program(name: str) -> str:
    """Return where `name` is; without it the test is skipped, in CI it fails."""
    return shutil.which(name) or _cannot(f"needs {name} on the PATH")


def _cannot(reason: str) -> NoReturn:
    """Give up on the test, aloud where nothing may be left out."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"JavaScript: {reason}")
    pytest.skip(f"JavaScript: {reason}")
