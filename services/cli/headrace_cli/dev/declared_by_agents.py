"""What is declared above agents in code, as a process of its own finds it.

``headrace dev`` never imports its agents: they may be saved while it runs, and may end or block
their process. Run as a module, this writes JSON: ``python -m headrace_cli.dev.declared_by_agents
AGENTS``.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headrace_cli.declarations import KINDS, Kind, declared_by_code
from headrace_cli.dev import die_with_parent
from headrace_cli.failures import CannotStart

if TYPE_CHECKING:
    from headrace.model.events import Json


class AgentInCode(NamedTuple):
    """Where agents are."""

    target: str
    """MODULE:ATTR."""
    name: str = ""
    """The agent's name in the file that names it; empty: its own."""


async def declared_by_agents(
    agents: Sequence[AgentInCode], timeout: float
) -> "dict[Kind, list[Json]]":
    """Return the triggers and schedules declared above `agents`.

    Raises:
        CannotStart: they can't be imported within `timeout` seconds.
    """
    process = await asyncio.create_subprocess_exec(
        *die_with_parent.wrapped((sys.executable, "-m", __name__, json.dumps(agents))),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        process_group=0,  # Ctrl-C at the terminal ends the stack, which ends this.
    )
    try:
        async with asyncio.timeout(timeout):
            output, errors = await process.communicate()
    except TimeoutError:
        raise CannotStart(f"not imported in {timeout:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last_line = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise CannotStart(last_line or f"exit code {process.returncode}")
    declared: dict[Kind, list[Json]] = json.loads(output)
    return declared


def _write(agents: Sequence[AgentInCode]) -> None:
    """Import `agents`, and write what is declared above them."""
    declared = {
        kind: [each for one in agents for each in declared_by_code(one.target, kind, one.name)]
        for kind in KINDS
    }
    json.dump(declared, sys.stdout)


if __name__ == "__main__":
    try:
        _write([AgentInCode(*one) for one in json.loads(sys.argv[1])])
    except CannotStart as error:
        sys.exit(error.format_message())
