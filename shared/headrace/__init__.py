"""The public API for agent authors: `agent`, the output types, tools and `RunContext`.

An agent is an async function decorated with `agent`. What it yields is its answer:

    from headrace import RunContext, agent

    @agent(description="Greets.")
    async def hello(ctx: RunContext):
        yield f"Hello, {ctx.prompt}!"

``headrace worker MODULE:hello`` serves it. The subpackages hold the code that the services share.
"""

from headrace.model.agent_card import Provider
from headrace.sdk.agent import Agent, Agents, Skill, agent
from headrace.sdk.calling import Answer, ToolError
from headrace.sdk.context import RunContext
from headrace.sdk.emit import (
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
from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import DelegationFailed, DelegationRefused, MalformedOutput, Retryable
from headrace.sdk.relayed import Artifact, Outcome, RelayedMessage
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
    Usage,
)
from headrace.sdk.tools import Tool, ToolSource, tool

__all__ = [
    "Activity",
    "ActivityDelta",
    "Agent",
    "Agents",
    "Answer",
    "Artifact",
    "Complete",
    "Custom",
    "Data",
    "DelegationFailed",
    "DelegationRefused",
    "Emission",
    "EndedTask",
    "File",
    "InputRequired",
    "MalformedOutput",
    "Message",
    "Messages",
    "Outcome",
    "Provider",
    "Raw",
    "Reject",
    "RelayedMessage",
    "Result",
    "Retryable",
    "RunContext",
    "Skill",
    "State",
    "StateDelta",
    "Status",
    "Step",
    "Subagent",
    "Text",
    "Thinking",
    "Tool",
    "ToolArguments",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "ToolSource",
    "Usage",
    "agent",
    "tool",
]
