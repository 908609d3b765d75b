"""The worker: runs agents, and the SDK that their authors import.

An agent is an async function under `agent`; what it yields is what it says:

    @agent(description="Greets.")
    async def hello(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"Hello, {ctx.prompt}!"

``headrace worker MODULE:hello`` serves it.
"""

from headrace_worker.agent import Agent, Agents, Skill, agent
from headrace_worker.calling import Answer, ToolError
from headrace_worker.context import RunContext
from headrace_worker.delegation.errors import DelegationFailed, DelegationRefused
from headrace_worker.delegation.result import Result
from headrace_worker.emission import (
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
from headrace_worker.ended import EndedTask
from headrace_worker.errors import MalformedOutput, Retryable
from headrace_worker.relayed import Artifact, Outcome, Said
from headrace_worker.signals import (
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
from headrace_worker.tools import Tool, ToolSource, tool

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
    "Raw",
    "Reject",
    "Result",
    "Retryable",
    "RunContext",
    "Said",
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
