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
from headrace_worker.errors import MalformedOutput, Retryable

__all__ = [
    "Agent",
    "Agents",
    "Complete",
    "Data",
    "Emission",
    "File",
    "InputRequired",
    "MalformedOutput",
    "Message",
    "Reject",
    "Retryable",
    "RunContext",
    "Skill",
    "Status",
    "Text",
    "Thinking",
    "ToolArguments",
    "ToolCall",
    "ToolResult",
    "agent",
]
