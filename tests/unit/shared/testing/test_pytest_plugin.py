"""The fixture ``fleet`` as projects use it: in a pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

_AGENT = """
import pytest
from headrace import agent

@agent()
async def echo(ctx):
    yield ctx.prompt
"""


def _run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Run pytest on a file with `text` and return its exit code and output."""
    (folder / "test_echo.py").write_text(_AGENT + text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "headrace.pytest_plugin", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_the_fixture_serves_the_markers_agents(tmp_path: Path) -> None:
    text = """
@pytest.mark.agents(echo)
async def test_echo(fleet):
    assert (await fleet.send("echo", "hello")).text == "hello"
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    assert (code, "1 passed" in output) == (0, True), output


def test_a_fixture_named_agents_serves_others(tmp_path: Path) -> None:
    text = """
@pytest.fixture
def agents():
    return [echo]

@pytest.mark.asyncio
async def test_echo(fleet):
    assert (await fleet.send("echo", "hello")).text == "hello"
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin")
    assert (code, "1 passed" in output) == (0, True), output


def test_a_fleet_without_agents_says_what_to_write(tmp_path: Path) -> None:
    text = """
async def test_echo(fleet):
    pass
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    assert code == 1
    assert "@pytest.mark.agents(my_agent)" in output


def test_without_the_extra_the_fixture_says_what_to_install(tmp_path: Path) -> None:
    text = """
import sys
sys.modules["starlette"] = None

@pytest.mark.agents(echo)
async def test_echo(fleet):
    pass
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    assert code == 1
    assert "starlette is not installed: pip install 'headrace[testing]'" in output
    assert "Traceback" not in output
