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


def test_a_failed_assertion_shows_what_the_agent_did(tmp_path: Path) -> None:
    text = """
from headrace import ToolError, tool

@tool
def stock(of: str) -> int:
    if of == "none":
        raise ToolError("no such thing")
    return 7

@agent
async def shop(ctx):
    yield "Welcome. "
    await ctx.call(stock, of=ctx.prompt)

@pytest.mark.agents(shop)
@pytest.mark.parametrize("prompt", ["nails", "none"])
async def test_shop(fleet, prompt):
    answer = await fleet.send("shop", prompt)
    if prompt == "nails":
        assert answer == "Welcome."
    assert "7" in answer.text
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    shown = [line.removeprefix("E").strip() for line in output.splitlines() if line[:1] == "E"]
    compared = shown.index("assert TaskResult ==: compare what it has, such as its text or state")
    assert shown[compared + 1 : compared + 5] == [
        "TaskResult:",
        "state='completed'",
        "text='Welcome. '",
        """tool_calls=["stock({'of': 'nails'}) -> 7"]""",
    ], output
    [where] = [line for line in shown if line.startswith("+  where 'Welcome. ' = ")]
    result = "TaskResult(state='failed', status_text='The agent failed (error "
    assert where.startswith(f"+  where 'Welcome. ' = {result}"), output
    assert code == 1


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


def test_a_fleet_without_agents_states_what_to_write(tmp_path: Path) -> None:
    text = """
async def test_echo(fleet):
    pass
"""
    code, output = _run(tmp_path, text, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    assert code == 1
    assert "@pytest.mark.agents(my_agent)" in output


def test_without_the_extra_the_fixture_states_what_to_install(tmp_path: Path) -> None:
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
