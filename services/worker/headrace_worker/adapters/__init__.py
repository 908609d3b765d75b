"""Adapters that serve agents of other frameworks and SDKs unchanged.

Each adapter returns an `Agent`. It needs an extra of its own and is imported on first access:

=======================  ===========================  ==========================================
``McpServer``            ``headrace[mcp]``            the tools of an MCP server
``adk_agent``            ``headrace[google-adk]``     an agent of Google's ADK
``ag_ui_agent``          ``headrace[ag-ui]``          an AG-UI agent behind HTTP
``executor_agent``       ``headrace[a2a]``            an `AgentExecutor` of the official SDK
``langgraph_agent``      ``headrace[langgraph]``      a LangGraph graph
``openai_agent``         ``headrace[openai]``         a model behind an OpenAI-compatible endpoint
``openai_agents_agent``  ``headrace[openai-agents]``  an agent of the OpenAI Agents SDK
``pydantic_ai_agent``    ``headrace[pydantic-ai]``    a pydantic-ai agent
``remote_agent``         ``headrace[a2a]``            an external A2A agent, by its URL
=======================  ===========================  ==========================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace_worker.adapters.adk_runner import adk_agent
    from headrace_worker.adapters.agents_sdk import openai_agents_agent
    from headrace_worker.adapters.agui_agent import ag_ui_agent
    from headrace_worker.adapters.credentials import ApiKey, Bearer, ClientCredentials
    from headrace_worker.adapters.executor import executor_agent
    from headrace_worker.adapters.graph_agent import langgraph_agent
    from headrace_worker.adapters.mcp_tools import McpServer
    from headrace_worker.adapters.openai_chat import openai_agent
    from headrace_worker.adapters.pydantic_agent import pydantic_ai_agent
    from headrace_worker.adapters.remote import remote_agent

_MODULES = {
    "ApiKey": "credentials",
    "Bearer": "credentials",
    "ClientCredentials": "credentials",
    "McpServer": "mcp_tools",
    "adk_agent": "adk_runner",
    "ag_ui_agent": "agui_agent",
    "executor_agent": "executor",
    "langgraph_agent": "graph_agent",
    "openai_agent": "openai_chat",
    "openai_agents_agent": "agents_sdk",
    "pydantic_ai_agent": "pydantic_agent",
    "remote_agent": "remote",
}

__all__ = [
    "ApiKey",
    "Bearer",
    "ClientCredentials",
    "McpServer",
    "adk_agent",
    "ag_ui_agent",
    "executor_agent",
    "langgraph_agent",
    "openai_agent",
    "openai_agents_agent",
    "pydantic_ai_agent",
    "remote_agent",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # whatever the adapter is
    """Import the requested adapter.

    Raises:
        MissingExtra: The library that the adapter needs is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
