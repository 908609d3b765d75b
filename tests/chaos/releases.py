"""Releases side by side: the wheel of an earlier revision, and a stack whose roles switch."""

import os
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from shlex import quote
from sysconfig import get_path

from headrace_cli.dev.dev_file import Role
from tests.support.compose_file import ROOT

_LOCKED = "requirements.txt"
_TIMEOUT = 600.0
_SCRIPT = """#!/bin/sh
[ "$1 $2" = "-m headrace_cli" ] && exec "$(cat {folder}/"$3")" "$@"
exec {python} "$@"
"""
ROLES: tuple[Role, ...] = ("task-state", "triggers", "worker", "gateway")
"""In the order in which `make roll` replaces them."""


@dataclass(frozen=True, slots=True)
class Release:
    """An installed release."""

    name: str
    python: Path = field(repr=False)
    """Its interpreter."""
    tree: Path = field(repr=False)
    """Its sources."""

    def runs_as(self, pid: int) -> bool:
        """Return whether the process `pid` is of this release."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return command.startswith(os.fsencode(self.python) + b"\0-m\0headrace_cli\0")


PRESENT = Release("the present tree", Path(sys.executable), ROOT)


def last_release(tree: Path = ROOT) -> str:
    """Return the last tag before the present commit of the git work `tree`.

    Before the first release it is the present commit: what is rolled then is a release to itself.
    """
    tags = _git(tree, "tag", "--sort=-creatordate", "--merged", "HEAD~1").split()
    return tags[0] if tags else "HEAD"


def _git(tree: Path, *command: str) -> str:
    return _output("git", *command, cwd=tree).decode().strip()


def installed(revision: str, folder: Path) -> Release:
    """Build the wheel of a git revision and install it into an environment in `folder`.

    Where the revision has the requirements of the present tree, it uses those installed here, and
    nothing is downloaded.
    """
    tree, wheels, environment = folder / "tree", folder / "wheels", folder / "venv"
    archive = _output("git", "archive", "--format=tar", revision)
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(tree, filter="data")
    _output(
        sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", wheels, cwd=tree
    )
    [wheel] = wheels.iterdir()
    venv.create(environment)
    release = Release(revision, environment / "bin" / "python", tree)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    install = (*pip, "--python", release.python, "install")
    if (tree / _LOCKED).read_bytes() == (ROOT / _LOCKED).read_bytes():
        # A path file of another environment is not followed, so what is installed here as
        # editable, the present tree, is not found.
        installed_here = get_path("purelib")
        [packages] = environment.glob("lib/python*/site-packages")
        (packages / "requirements.pth").write_text(f"{installed_here}\n")
    else:
        _output(*install, "--require-hashes", "--requirement", tree / _LOCKED)
    _output(*install, "--no-deps", "--no-index", wheel)
    return release


class Releases:
    """The release that each role of a stack uses from its next start on."""

    def __init__(self, folder: Path, first: Release) -> None:
        """Store the choice in `folder`; all roles use `first`."""
        self._folder = folder
        folder.mkdir()
        for role in ROLES:
            self.choose(role, first)
        script = folder / "python"
        paths = {"folder": quote(str(folder)), "python": quote(sys.executable)}
        script.write_text(_SCRIPT.format(**paths))
        script.chmod(0o755)
        self.program = (sys.executable, "-m", "tests.chaos.picking_dev", script)
        """The program that starts the stack instead of `headrace`."""

    def choose(self, role: Role, release: Release) -> None:
        """Let processes of `role` use `release` from their next start on."""
        new = self._folder / f"{role}.new"
        new.write_text(str(release.python))
        new.replace(self._folder / role)


def _output(*command: str | Path, cwd: Path = ROOT) -> bytes:
    done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout
