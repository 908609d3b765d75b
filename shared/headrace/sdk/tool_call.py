"""Calls of a tool: its content or its error."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headrace.model.errors import HeadraceError
from headrace.model.events import Json


class ToolError(HeadraceError):
    """Raised by a tool that failed. The message is shown to the model and to the user."""

    code = "tool_error"


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """A question that the run's user must answer before a call can go on."""

    message: str
    schema: Json
    """JSON Schema of the answer."""
    state: Json
    """With which the tool goes on (`AskingTool.answer`). The user can see it."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a tool call."""

    content: Any = ""
    """Any JSON value."""
    error: str = ""
    """Why the call failed. Empty: it succeeded."""
    question: ToolQuestion | None = None
    """What the user must answer first; then the call has no content yet."""


@runtime_checkable
class Callee(Protocol):
    """Anything that an agent can call during a run."""

    @property
    def name(self) -> str:
        """Name in the log and for models."""

    async def call(self, ctx: Any, arguments: Any) -> ToolOutput:  # noqa: ANN401  # a RunContext; JSON
        """Run the call for `ctx`. Failures are reported in the output."""
