"""The npm package `@headrace/client`, built and installed as its users install it."""

import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.architecture.tree import ROOT
from tests.support import javascript

_SOURCE = ROOT / "clients" / "javascript"
_TIMEOUT = 240


def installed(folder: Path) -> Path:
    """Pack the package, and return a folder in `folder` that has it and the tests' scripts.

    `folder` must not exist; it does not afterwards if that fails.
    """
    javascript.install(javascript.FOLDER)
    with TemporaryDirectory(dir=folder.parent) as made:
        app = _installed(Path(made) / "whole")
        app.parent.rename(folder)
    return folder / app.name


def pack(build: Path, folder: Path) -> Path:
    """Pack the package into `folder`, built in `build`, which must not exist; return the file."""
    shutil.copytree(_SOURCE, build, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (build / "node_modules").symlink_to(javascript.FOLDER / "node_modules")
    where = ["--pack-destination", str(folder.resolve())]
    run(build, javascript.program("npm"), "pack", "--loglevel=error", *where)
    [archive] = folder.glob("*.tgz")
    return archive


def _installed(folder: Path) -> Path:
    packages, app = javascript.FOLDER / "node_modules", folder / "app"
    archive = pack(folder / "build", folder)
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    own = app / "node_modules" / "@headrace"
    own.mkdir(parents=True)
    (folder / "package").rename(own / "client")
    for one in packages.iterdir():
        (own.parent / one.name).symlink_to(one)
    scripts = [*javascript.FOLDER.glob("*.mjs"), *(_SOURCE / "tests").glob("*.mjs")]
    for script in scripts:
        shutil.copy(script, app)
    return app


def run(folder: Path, *command: str) -> str:
    """Run a program in `folder` and return its output; it must succeed."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
