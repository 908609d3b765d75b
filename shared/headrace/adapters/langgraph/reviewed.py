"""What a graph tells of the tools whose calls people review."""

from typing import Any

from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel

from headrace.model.events import Json


def tools_of(graph: Pregel[Any, Any, Any, Any]) -> dict[str, Json]:
    """Return the JSON Schemas of the arguments of the graph's own tools, by name."""
    nodes = (node.bound for node in graph.nodes.values())
    tools = [node.tools_by_name for node in nodes if isinstance(node, ToolNode)]
    return {name: {"properties": tool.args} for known in tools for name, tool in known.items()}
