"""The worker: runs agents, and the SDK that their authors import.

An agent is an async function under `agent`; what it yields is what it says:

    @agent(description="Greets.")
    async def hello(ctx: RunContext) -> AsyncIterator[Emission]:
        yield f"Hello, {ctx.prompt}!"

``headrace worker MODULE:hello`` serves it.
"""

from headrace_worker.agent import Agent, Agents, Skill, agent
from headrace_worker.context import RunContext
from headrace_worker.emission import (
    Activity,
    ActivityDelta,
    Complete,
    Custom,
    Data,
    Emission,
    File,
    InputRequired,
    Message,
    Raw,
    Reject,
    State,
    StateDelta,
    Status,
    Step,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    Usage,
)
from headrace_worker.errors import MalformedOutput, Retryable
from headrace_worker.relayed import Artifact, Outcome, Said

__all__ = [
    "Activity",
    "ActivityDelta",
    "Agent",
    "Agents",
    "Artifact",
    "Complete",
    "Custom",
    "Data",
    "Emission",
    "File",
    "InputRequired",
    "MalformedOutput",
    "Message",
    "Outcome",
    "Raw",
    "Reject",
    "Retryable",
    "RunContext",
    "Said",
    "Skill",
    "State",
    "StateDelta",
    "Status",
    "Step",
    "Text",
    "Thinking",
    "ToolArguments",
    "ToolCall",
    "ToolResult",
    "Usage",
    "agent",
]
