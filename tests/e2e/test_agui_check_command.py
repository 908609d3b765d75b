"""`headrace agui check` finds nothing wrong with the fleet's own agents."""

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace_cli.main import main
from headrace_dojo import agents
from tests.support.fleet import Fleet

COMMAND = ("agui", "check", "--strict")


async def checked(url: str, *options: str) -> tuple[int, str]:
    """Enter the command: a process of its own for each agent takes longer than to check it."""
    runner = CliRunner()
    done = await asyncio.to_thread(runner.invoke, main, [*COMMAND, *options, url])
    return done.exit_code, done.output


async def checked_by_process(url: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("headrace"),
        *(*COMMAND, url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    return process.returncode or 0, output.decode()


@pytest.mark.parametrize("options", [(), ("--old",)])
async def test_every_demo_agent_keeps_every_rule(fleet: Fleet, options: tuple[str, ...]) -> None:
    urls = [f"{fleet.gateways[0]}/v1/agents/{agent.name}/ag-ui" for agent in agents]
    assert len(urls) > 10
    for url in urls:
        code, output = await checked(url, *options)
        assert code == 0, f"{url}\n{output}"
        assert "0 doubtful, 0 broken" in output


async def test_an_agent_that_is_not_there_fails_the_check(fleet: Fleet) -> None:
    code, output = await checked_by_process(f"{fleet.gateways[0]}/v1/agents/nobody/ag-ui")
    assert (code, "BROKEN http.status" in output) == (1, True)
