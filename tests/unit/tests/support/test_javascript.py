"""Test processes that need the JavaScript clients at the same time install them once."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import javascript
from tests.support.compose_file import ROOT

_PROCESSES = 4
_TIMEOUT = 120

_NPM = """#!/bin/sh
mkdir node_modules/.installing || exit 1
sleep 0.5
cp package-lock.json node_modules/.package-lock.json
"""
"""Fails where another one is at it, or was."""


def lock(**versions: str) -> str:
    return json.dumps({"packages": {"": {}, **{n: {"version": v} for n, v in versions.items()}}})


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("installed", [{}, {"a": "1"}, {"a": "1", "b": "1"}])
def test_of_many_at_once_one_installs_what_is_pinned_and_all_have_it(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    programs, folder = tmp_path / "bin", tmp_path / "clients"
    programs.mkdir()
    (folder / "node_modules").mkdir(parents=True)
    (folder / "package-lock.json").write_text(lock(a="1", b="2"))
    # As a copy may have it: of an older lock file, and newer than this one.
    (folder / "node_modules/.package-lock.json").write_text(lock(**installed))
    program(programs, "node", "#!/bin/sh\necho v22.0.0\n")
    program(programs, "npm", _NPM)
    script = f"""
import pathlib
from tests.support import javascript
javascript.install(pathlib.Path({str(folder)!r}))
"""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    installing = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PATH": path, "CI": "true"}
        )
        for _ in range(_PROCESSES)
    ]
    assert [process.wait(_TIMEOUT) for process in installing] == [0] * _PROCESSES
    assert (folder / "node_modules/.package-lock.json").read_text() == lock(a="1", b="2")


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")
def test_a_build_server_leaves_alone_what_a_test_has_installed(tmp_path: Path) -> None:
    function = re.search(
        r"^javascript_clients\(\) \{.*?^\}",
        (ROOT / ".ci/run").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert function
    first, second = (tmp_path / name for name in ("tests/e2e/javascript", "services/console"))
    for folder in (first, second):
        (folder / "node_modules").mkdir(parents=True)
        (folder / "package-lock.json").write_text(lock())
    (second / "node_modules/.package-lock.json").write_text(lock())
    program(tmp_path, "npm", '#!/bin/sh\necho "$1 $2 $3" >>called\n')
    subprocess.run(
        [str(shutil.which("bash")), "-euc", f"{function[0]}\njavascript_clients"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        timeout=_TIMEOUT,
    )
    assert (tmp_path / "called").read_text() == "ci --prefix tests/e2e/javascript\n"


def test_a_script_answers_one_order_after_the_other_and_reports_why_it_ended(
    tmp_path: Path,
) -> None:
    (tmp_path / "counts.mjs").write_text("""
import { createInterface } from "node:readline";
let count = 0;
for await (const line of createInterface({ input: process.stdin })) {
  if (line === '"throw"') throw new Error("as ordered");
  process.stdout.write(`${++count}\\n`);
}
""")
    with javascript.Script("counts.mjs", tmp_path) as script:
        assert [script.run("one"), script.run("two")] == [1, 2]
        with pytest.raises(AssertionError, match="Error: as ordered"):
            script.run("throw")
        assert script.run("anew") == 1
