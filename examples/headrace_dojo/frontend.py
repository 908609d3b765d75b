"""What an AG-UI client sends with a message: its own tools, and their results."""

from headrace import RunContext
from headrace.model import parts
from headrace.model.parts import ToolResultPart


def has_tool(ctx: RunContext, name: str) -> bool:
    """Return whether the client can execute a tool; a client that lists none may have any."""
    tools = ctx.agui.get("tools") or []
    return bool(ctx.agui) and (not tools or any(tool.get("name") == name for tool in tools))


def results(ctx: RunContext) -> list[ToolResultPart]:
    """Return the results of the client's tools in this run's message."""
    return [found for part in ctx.parts if (found := parts.tool_result(part)) is not None]
