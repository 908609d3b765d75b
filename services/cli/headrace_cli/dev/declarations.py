"""The triggers and schedules of the project, applied when the stack is ready.

``headrace dev`` never imports its agents: they may be saved while it runs, and may end or block
their process. So a process of its own finds what is declared above them. Run as a module, this
writes JSON: ``python -m headrace_cli.dev.declarations AGENTS``.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headrace_cli.declarations import KINDS, Kind, apply, declared_by_code, declared_in
from headrace_cli.dev import die_with_parent
from headrace_cli.failures import CannotStart, RequestFailed
from headrace_cli.gateway import ask_gateway

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.model.events import Json


class AgentInCode(NamedTuple):
    """Where agents are."""

    target: str
    """MODULE:ATTR."""
    name: str = ""
    """The agent's name in the file that names it; empty: its own."""


async def apply_file(gateway: str, file: Path) -> list[str]:
    """Apply the triggers and schedules of `file` at `gateway`, and return lines about them.

    What is refused does not end the stack: its author is about to change the file.
    """
    return await _all_applied(gateway, file.name, lambda kind: declared_in(file, kind))


async def apply_code(gateway: str, agents: Sequence[AgentInCode], timeout: float) -> list[str]:
    """Apply the triggers and schedules declared above `agents`, as `apply_file` does.

    `timeout` is for their import, seconds.
    """
    try:
        declared = await _declared_by_agents(agents, timeout)
    except CannotStart as unusable:
        return [f"triggers and schedules of the agents: {unusable.format_message()}"]
    return await _all_applied(gateway, "agents", declared.__getitem__)


async def _all_applied(
    gateway: str, source: str, find: "Callable[[Kind], list[Json]]"
) -> list[str]:
    lines = list[str]()
    for kind in KINDS:
        try:
            if declared := find(kind):
                lines.append(await _applied(gateway, kind, declared))
        except (CannotStart, RequestFailed) as refused:
            lines.append(f"{source}: {kind}: {refused}")
    return lines


async def _applied(gateway: str, kind: Kind, declared: "list[Json]") -> str:
    async def work(client: "Client") -> "list[Json]":
        return await apply(client, kind, declared)

    applied = await ask_gateway(gateway, None, work)
    return f"{kind} {', '.join(str(one['name']) for one in applied)}"


async def _declared_by_agents(
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
