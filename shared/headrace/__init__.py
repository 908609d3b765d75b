"""The public API for agent authors: `agent`, the output types, tools and `RunContext`.

An agent is an async function decorated with `agent`. What it yields is its answer:

    from headrace import RunContext, agent

    @agent(description="Greets.")
    async def hello(ctx: RunContext):
        yield f"Hello, {ctx.prompt}!"

``headrace worker MODULE:hello`` serves it. The subpackages hold the code that the services share.

Each name is imported on first access: pytest imports this package in every run of every project,
and services use the subpackages without these names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.embedding import asgi
    from headrace.model.agent_card import Provider
    from headrace.model.memory import MemoryChanged, MemoryFull, MemoryValue
    from headrace.sdk.agent import Agent, Agents, EndedTask, Interceptor, agent
    from headrace.sdk.card import Card, Skill
    from headrace.sdk.context import RunContext
    from headrace.sdk.declarations import on, schedule
    from headrace.sdk.direct_run import FleetRequired, Reply
    from headrace.sdk.emit import (
        Artifact,
        Complete,
        Data,
        Emission,
        File,
        InputRequired,
        Message,
        Reject,
        Status,
        Text,
        Thinking,
        ToolArguments,
        ToolCall,
        ToolResult,
    )
    from headrace.sdk.errors import (
        DelegationFailed,
        DelegationRefused,
        MalformedOutput,
        Retryable,
        StepChanged,
        StepFailed,
    )
    from headrace.sdk.memory import Memory
    from headrace.sdk.once import once
    from headrace.sdk.policy import Limits, Retry
    from headrace.sdk.results import Result
    from headrace.sdk.signals import (
        Activity,
        ActivityDelta,
        Custom,
        Messages,
        Raw,
        State,
        StateDelta,
        Step,
        Subagent,
        SurfaceAction,
        Surfaces,
        Usage,
    )
    from headrace.sdk.tool_call import ToolError, ToolOutput, ToolQuestion
    from headrace.sdk.tools import AskingTool, Tool, ToolSource, tool
    from headrace.sdk.waits import Subject, TaskEnd, WaitEvent, Webhook

_NAMES = {
    "embedding": "asgi",
    "model.a2ui": "BASIC_CATALOG",
    "model.agent_card": "Provider",
    "model.memory": "MemoryChanged MemoryFull MemoryValue",
    "sdk.agent": "Agent Agents EndedTask Interceptor agent",
    "sdk.card": "Card Skill",
    "sdk.context": "RunContext",
    "sdk.declarations": "on schedule",
    "sdk.direct_run": "FleetRequired Reply",
    "sdk.emit": "Artifact Complete Data Emission File InputRequired Message Reject "
    "Status Text Thinking ToolArguments ToolCall ToolResult",
    "sdk.errors": "DelegationFailed DelegationRefused MalformedOutput Retryable StepChanged "
    "StepFailed",
    "sdk.memory": "Memory",
    "sdk.once": "once",
    "sdk.policy": "Limits Retry",
    "sdk.results": "Result",
    "sdk.signals": "Activity ActivityDelta Custom Messages Raw State StateDelta Step Subagent "
    "SurfaceAction Surfaces Usage",
    "sdk.tool_call": "ToolError ToolOutput ToolQuestion",
    "sdk.tools": "AskingTool Tool ToolSource tool",
    "sdk.waits": "Subject TaskEnd WaitEvent Webhook",
}
"""The public names, by the module that defines them."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "BASIC_CATALOG",
    "Activity",
    "ActivityDelta",
    "Agent",
    "Agents",
    "Artifact",
    "AskingTool",
    "Card",
    "Complete",
    "Custom",
    "Data",
    "DelegationFailed",
    "DelegationRefused",
    "Emission",
    "EndedTask",
    "File",
    "FleetRequired",
    "InputRequired",
    "Interceptor",
    "Limits",
    "MalformedOutput",
    "Memory",
    "MemoryChanged",
    "MemoryFull",
    "MemoryValue",
    "Message",
    "Messages",
    "Provider",
    "Raw",
    "Reject",
    "Reply",
    "Result",
    "Retry",
    "Retryable",
    "RunContext",
    "Skill",
    "State",
    "StateDelta",
    "Status",
    "Step",
    "StepChanged",
    "StepFailed",
    "Subagent",
    "Subject",
    "SurfaceAction",
    "Surfaces",
    "TaskEnd",
    "Text",
    "Thinking",
    "Tool",
    "ToolArguments",
    "ToolCall",
    "ToolError",
    "ToolOutput",
    "ToolQuestion",
    "ToolResult",
    "ToolSource",
    "Usage",
    "WaitEvent",
    "Webhook",
    "agent",
    "asgi",
    "on",
    "once",
    "schedule",
    "tool",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # any public name
    """Import the requested name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
