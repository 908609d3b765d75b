"""The tools that an AG-UI client offers with a run, which it executes itself."""

from headrace.model.events import Json
from headrace.sdk.context import RunContext


def client_tools(ctx: RunContext) -> list[Json]:
    """Return the tools with ``name``, ``description`` and ``parameters``, a JSON Schema."""
    return [with_defaults(tool) for tool in ctx.agui.get("tools") or ()]


def with_defaults(tool: Json) -> Json:
    """Return an AG-UI Tool with the fields that clients may leave out."""
    return {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
    }
