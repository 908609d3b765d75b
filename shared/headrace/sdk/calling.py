"""Calling a tool, as agents see it: what it answers, and how it says that it can't."""

from dataclasses import dataclass
from typing import Any, Protocol

from headrace.model.errors import HeadraceError


class ToolError(HeadraceError):
    """A tool could not; the message is for the model and for the user."""

    code = "tool_error"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call."""

    content: Any = ""
    """JSON."""
    error: str = ""
    """Why it failed; empty where it did not."""


class Callee(Protocol):
    """Something that an agent can call in a run."""

    @property
    def name(self) -> str:
        """Its name, for the log and for models."""

    async def answer(self, ctx: Any, arguments: Any) -> Answer:  # noqa: ANN401  # a RunContext; JSON
        """Do it for the run of `ctx`; what goes wrong is told in the answer."""
