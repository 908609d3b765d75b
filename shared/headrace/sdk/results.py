"""What an agent that was asked has come to."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from headrace.model import parts
from headrace.model.events import INPUT_SCHEMA, Json
from headrace.model.task import INPUT_REQUIRED
from headrace.sdk.emit import InputRequired


@dataclass(frozen=True, slots=True)
class Result:
    """An answer, or the question that stands between."""

    agent: str
    task: Json
    """The child, an A2A v1.0 Task with its artifacts and its history."""

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
        """The A2A Artifacts that it made."""
        made: Sequence[Json] = self.task.get("artifacts", ())
        return made

    @property
    def message(self) -> Json | None:
        """The message with which it ended, if it ended with one: an A2A Message."""
        said: Json | None = self.task["status"].get("message")
        return said

    @property
    def parts(self) -> Sequence[Json]:
        """All parts of its answer: of its artifacts, then of its last message."""
        said = self.message or {}
        return [p for holder in (*self.artifacts, said) for p in holder.get("parts", ())]

    @property
    def text(self) -> str:
        """The answer's text, without reasoning and tool calls."""
        return parts.text_of(self.parts)

    @property
    def tokens(self) -> int:
        """Tokens that it reports to have used, its own children's included."""
        used = self.task.get("metadata", {}).get("tokens_used", 0)
        return int(used) if isinstance(used, int | float) else 0

    @property
    def needs_input(self) -> bool:
        """Whether it waits for an answer: give it with `RunContext.answer`."""
        return self.state == INPUT_REQUIRED

    def ask_user(self) -> InputRequired:
        """Return its question as one's own: the run ends, and the user's answer is the next input.

        The agent, called again with that, hands it on with ``await ctx.answer()``.
        """
        said = self.message or {}
        schema = said.get("metadata", {}).get(INPUT_SCHEMA)
        prompt = parts.text_of(said.get("parts", ()))
        whose = {"task": self.id, "agent": self.agent}
        return InputRequired(prompt, schema, asks_for=whose)


class Named(Protocol):
    """What has the name of an agent: an `Agent`, wherever it is served."""

    @property
    def name(self) -> str:
        """The agent's name."""


class Delegation(Protocol):
    """``async for event in ctx.delegate_stream(…)``: A2A v1.0 StreamResponses, then no more.

    Left before its end, by ``async with`` or at the end of the run, the child is canceled.
    """

    @property
    def task(self) -> str:
        """The child's task id."""

    async def result(self) -> Result:
        """Return what it has come to, waiting for it.

        Raises:
            DelegationFailed, RunOver: as `RunContext.delegate`.
        """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Json:
        """Return the next event.

        Raises:
            DelegationFailed, RunOver: it has not come to a good end.
        """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None: ...
