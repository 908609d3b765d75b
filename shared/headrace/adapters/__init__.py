"""Adapters that serve agents of other frameworks and SDKs unchanged.

Each adapter returns an `Agent`. It needs an extra of its own and is imported on first access from
here, the one public path; the subpackages are private:

========================  ===========================  ==========================================
``ClientMcpServers``      ``headrace[mcp]``            tools of MCP servers that a client names
``FleetArtifactService``  ``headrace[google-adk]``     ADK's artifacts in the fleet
``FleetDurability``       ``headrace[pydantic-ai]``    pydantic-ai's requests and calls as steps
``FleetMemoryService``    ``headrace[google-adk]``     ADK's memories in the fleet
``FleetSaver``            ``headrace[langgraph]``      a LangGraph checkpointer in the fleet
``FleetSessionService``   ``headrace[google-adk]``     ADK's sessions in the fleet
``FleetStore``            ``headrace[langgraph]``      a LangGraph store in the fleet
``McpServer``             ``headrace[mcp]``            the tools of an MCP server
``adk_agent``             ``headrace[google-adk]``     an agent of Google's ADK
``ag_ui_agent``           ``headrace[ag-ui]``          an AG-UI agent behind HTTP
``executor_agent``        ``headrace[a2a]``            an `AgentExecutor` of the official SDK
``fleet_history``         ``headrace[pydantic-ai]``    pydantic-ai's messages in the fleet
``fleet_session``         ``headrace[openai-agents]``  the OpenAI Agents SDK's session in the fleet
``langgraph_agent``       ``headrace[langgraph]``      a LangGraph graph
``openai_agent``          ``headrace[openai]``         a model behind an OpenAI-compatible endpoint
``openai_agents_agent``   ``headrace[openai-agents]``  an agent of the OpenAI Agents SDK
``pydantic_ai_agent``     ``headrace[pydantic-ai]``    a pydantic-ai agent
``remote_agent``          ``headrace[a2a]``            an external A2A agent, by its URL
========================  ===========================  ==========================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.model.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.adapters.a2a.credentials import ApiKey, Bearer, ClientCredentials
    from headrace.adapters.a2a.executor import executor_agent
    from headrace.adapters.a2a.remote import remote_agent
    from headrace.adapters.adk.agent import adk_agent
    from headrace.adapters.adk.artifact_service import FleetArtifactService
    from headrace.adapters.adk.memory_service import FleetMemoryService
    from headrace.adapters.adk.session_service import FleetSessionService
    from headrace.adapters.ag_ui.agent import ag_ui_agent
    from headrace.adapters.client_mcp import ClientMcpServers
    from headrace.adapters.langgraph.agent import langgraph_agent
    from headrace.adapters.langgraph.saver import FleetSaver
    from headrace.adapters.langgraph.store import FleetStore
    from headrace.adapters.mcp_tools import McpServer
    from headrace.adapters.openai.agent import openai_agent
    from headrace.adapters.openai_agents.agent import openai_agents_agent
    from headrace.adapters.openai_agents.session import fleet_session
    from headrace.adapters.pydantic_ai.agent import pydantic_ai_agent
    from headrace.adapters.pydantic_ai.durability import FleetDurability
    from headrace.adapters.pydantic_ai.messages import fleet_history

_MODULES = {
    "ApiKey": ("a2a.credentials", "a2a"),
    "Bearer": ("a2a.credentials", "a2a"),
    "ClientCredentials": ("a2a.credentials", "a2a"),
    "ClientMcpServers": ("client_mcp", "mcp"),
    "FleetArtifactService": ("adk.artifact_service", "google-adk"),
    "FleetDurability": ("pydantic_ai.durability", "pydantic-ai"),
    "FleetMemoryService": ("adk.memory_service", "google-adk"),
    "FleetSaver": ("langgraph.saver", "langgraph"),
    "FleetSessionService": ("adk.session_service", "google-adk"),
    "FleetStore": ("langgraph.store", "langgraph"),
    "McpServer": ("mcp_tools", "mcp"),
    "adk_agent": ("adk.agent", "google-adk"),
    "ag_ui_agent": ("ag_ui.agent", "ag-ui"),
    "executor_agent": ("a2a.executor", "a2a"),
    "fleet_history": ("pydantic_ai.messages", "pydantic-ai"),
    "fleet_session": ("openai_agents.session", "openai-agents"),
    "langgraph_agent": ("langgraph.agent", "langgraph"),
    "openai_agent": ("openai.agent", "openai"),
    "openai_agents_agent": ("openai_agents.agent", "openai-agents"),
    "pydantic_ai_agent": ("pydantic_ai.agent", "pydantic-ai"),
    "remote_agent": ("a2a.remote", "a2a"),
}
"""By adapter: its module, and the extra that installs what the module imports."""

__all__ = [
    "ApiKey",
    "Bearer",
    "ClientCredentials",
    "ClientMcpServers",
    "FleetArtifactService",
    "FleetDurability",
    "FleetMemoryService",
    "FleetSaver",
    "FleetSessionService",
    "FleetStore",
    "McpServer",
    "adk_agent",
    "ag_ui_agent",
    "executor_agent",
    "fleet_history",
    "fleet_session",
    "langgraph_agent",
    "openai_agent",
    "openai_agents_agent",
    "pydantic_ai_agent",
    "remote_agent",
]


class MissingExtra(HeadraceError, ImportError):
    """A library is not installed; the message names the extra that installs it."""

    code = "missing_extra"


def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the adapter is
    """Import the requested adapter.

    Raises:
        MissingExtra: The library that the adapter needs is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _MODULES[name]
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        names = (error.name or "").split(".")
        # Several libraries share the package `google`: the second part tells them apart.
        library = ".".join(names[: 2 if names[0] == "google" else 1])
        raise MissingExtra(
            f"{library} is not installed: pip install 'headrace[{extra}]'"
        ) from error
