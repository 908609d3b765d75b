"""The triggers and schedules of the project, applied when the stack is ready."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_cli.declarations import KINDS, Kind, apply, declared_in
from headrace_cli.dev.declared_by_agents import AgentInCode, declared_by_agents
from headrace_cli.failures import CannotStart, RequestFailed
from headrace_cli.gateway import ask_gateway

if TYPE_CHECKING:
    from headrace.client import Client
    from headrace.model.events import Json


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
        declared = await declared_by_agents(agents, timeout)
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
