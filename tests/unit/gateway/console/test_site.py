"""The console's built files: small, without inline code, and what the source gives."""

import re
import subprocess
from pathlib import Path

import pytest

from headrace_gateway.console.pages import SITE, site
from tests.architecture.tree import ROOT
from tests.support import javascript

SOURCE = ROOT / "services" / "console"
MOST = 300_000
"""Bytes, compressed."""


def node(*arguments: str) -> None:
    """Run a program of the console's packages; it must succeed."""
    javascript.install(SOURCE)
    command = [javascript.program("node"), *arguments]
    done = subprocess.run(
        command, cwd=SOURCE, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_browser_loads_at_most_300_kb() -> None:
    sizes = {name: len(file.compressed) for name, file in site().items()}
    loaded = [size for name, size in sizes.items() if not name.endswith(".txt")]
    assert len(loaded) == 3
    assert sum(loaded) <= MOST


def test_the_page_has_no_inline_code_or_style() -> None:
    page = (SITE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=|javascript:", page) == []


@pytest.mark.timeout(600)
def test_the_built_files_are_what_the_source_gives(tmp_path: Path) -> None:
    node("build.mjs", str(tmp_path / "site"))
    assert files_in(tmp_path / "site") == files_in(SITE), "run: npm run build"


@pytest.mark.timeout(600)
def test_the_sources_types_are_right() -> None:
    node("node_modules/typescript/bin/tsc", "--noEmit")


@pytest.mark.timeout(600)
def test_the_sources_own_tests_pass(tmp_path: Path) -> None:
    node("build.mjs", "--tests", str(tmp_path))
    scripts = sorted(str(path) for path in tmp_path.glob("*.mjs"))
    assert scripts
    node("--test", *scripts)
