"""What an AG-UI client sends along: its own tools, and what came of calling them."""

from headrace import RunContext
from headrace.model import parts
from headrace.model.parts import ToolResultPart


def has_tool(ctx: RunContext, name: str) -> bool:
    """Tell whether the client can carry out a tool; one that lists none may have any."""
    tools = ctx.agui.get("tools") or []
    return bool(ctx.agui) and (not tools or any(tool.get("name") == name for tool in tools))


def results(ctx: RunContext) -> list[ToolResultPart]:
    """Return what the client's tools answered, if that is what this run is about."""
    return [found for part in ctx.parts if (found := parts.tool_result(part)) is not None]
