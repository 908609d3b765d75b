"""The result of a delegation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from headrace.model import parts
from headrace.model.events import INPUT_SCHEMA, NEEDS_ANSWER, Json
from headrace.model.task import INPUT_REQUIRED
from headrace.model.usage_counts import token_count
from headrace.sdk.emit import InputRequired


@dataclass(frozen=True, slots=True)
class Result:
    """A child task's answer, or its question if `needs_input`."""

    agent: str
    task: Json
    """The child task: an A2A v1.0 Task with its artifacts and history."""

    @property
    def id(self) -> str:
        """The child's task id."""
        return str(self.task["id"])

    @property
    def state(self) -> str:
        """``TASK_STATE_COMPLETED`` or ``TASK_STATE_INPUT_REQUIRED``."""
        return str(self.task["status"]["state"])

    @property
    def artifacts(self) -> Sequence[Json]:
        """The A2A v1.0 Artifacts of the child task."""
        made: Sequence[Json] = self.task.get("artifacts", ())
        return made

    @property
    def message(self) -> Json | None:
        """The A2A v1.0 Message of the final status. None: the status has no message."""
        message: Json | None = self.task["status"].get("message")
        return message

    @property
    def parts(self) -> Sequence[Json]:
        """All A2A v1.0 Parts of the answer: the artifacts' parts, then the last message's."""
        message = self.message or {}
        return [p for holder in (*self.artifacts, message) for p in holder.get("parts", ())]

    @property
    def text(self) -> str:
        """The answer's text, without reasoning or tool calls."""
        return parts.text_of(self.parts)

    @property
    def tokens(self) -> int:
        """Tokens that the child reports, including its own children. 0: not reported."""
        return token_count(self.task.get("metadata", {}).get("tokens_used"))

    @property
    def needs_input(self) -> bool:
        """Whether the child waits for input. `RunContext.reply` answers it."""
        return self.state == INPUT_REQUIRED

    def ask_user(self) -> InputRequired:
        """Return the child's question as this agent's own, which ends the run.

        The user's answer is the next run's input. In that run, pass it to the child with ``await
        ctx.reply()``.
        """
        message = self.message or {}
        metadata = message.get("metadata", {})
        prompt = parts.text_of(message.get("parts", ()))
        whose: Json = {"task": self.id, "agent": self.agent}
        if metadata.get(NEEDS_ANSWER):
            whose["needsAnswer"] = True
        return InputRequired(prompt, metadata.get(INPUT_SCHEMA), asks_for=whose)


class HasName(Protocol):
    """An object with an agent's name, such as an `Agent`, wherever that agent is served."""

    @property
    def name(self) -> str:
        """The agent's name."""


@dataclass(frozen=True, slots=True)
class DelegationRequest:
    """The arguments of `RunContext.delegate`."""

    agent: str | HasName
    message: str | Json
    key: str | None = None
    relay: bool = True
    timeout: float | None = None
    budget: int | None = None


class Delegation(Protocol):
    """The events of a child task: ``async for event in ctx.delegate_stream(…)``.

    Each event is an A2A v1.0 StreamResponse. If the agent leaves ``async with`` or ends its run
    before the last event, the child task is canceled. A timeout around one event does not: the next
    read returns that event.
    """

    @property
    def task(self) -> str:
        """The child's task id."""

    async def result(self) -> Result:
        """Wait for the result and return it.

        Raises:
            DelegationFailed, RunOver: As for `RunContext.delegate`.
        """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Json:
        """Return the next event.

        Raises:
            DelegationFailed: The child failed, was rejected or canceled, or timed out.
            RunOver: This run has ended.
        """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
