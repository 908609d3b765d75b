"""Test processes that need the JavaScript clients at the same time install them once."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.compose_file import ROOT

_PROCESSES = 4
_TIMEOUT = 120

_NPM = """#!/bin/sh
mkdir node_modules || exit 1
sleep 0.5
touch node_modules/.package-lock.json
"""
"""Fails where another one is at it, or was."""


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


def test_of_many_at_once_one_installs_and_all_have_it(tmp_path: Path) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "clients"
    programs.mkdir()
    folder.mkdir()
    (folder / "package-lock.json").touch()
    program(programs, "node", "#!/bin/sh\necho v22.0.0\n")
    program(programs, "npm", _NPM)
    script = f"""
import pathlib
from tests.support import javascript
javascript.install(pathlib.Path({str(folder)!r}))
assert pathlib.Path({str(folder)!r}, "node_modules/.package-lock.json").exists()
"""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    installing = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PATH": path, "CI": "true"}
        )
        for _ in range(_PROCESSES)
    ]
    assert [process.wait(_TIMEOUT) for process in installing] == [0] * _PROCESSES
