"""The one way from an agent to its log: what it says is checked, rendered and put in the outbox."""

from typing import Any

from headrace_worker.breath import Breath
from headrace_worker.checkpoint import Checkpoint
from headrace_worker.emission import (
    ENDINGS,
    Emission,
    Ending,
    Message,
    Text,
    ToolArguments,
    ToolResult,
)
from headrace_worker.endings import End, Endings
from headrace_worker.errors import MalformedOutput
from headrace_worker.expense import Expense
from headrace_worker.ids import LegIds
from headrace_worker.outbox import Outbox
from headrace_worker.rendering import Rendering
from headrace_worker.signals import Usage


class Voice:
    """What one attempt of a leg says."""

    def __init__(
        self,
        rendering: Rendering,
        endings: Endings,
        outbox: Outbox,
        ids: LegIds,
        *,
        may_answer: bool,
    ) -> None:
        """Speak into `outbox`; `may_answer`: a bare Message instead of a task is allowed."""
        self._ids = ids
        self._rendering, self._endings, self._outbox = rendering, endings, outbox
        self._may_answer = may_answer
        self._has_spoken = False
        self._breath = Breath()
        self.mint = ids.mint
        self.expense = Expense()
        self.end: End | None = None
        """The end that the agent asked for; None: it has not."""
        self.answer: Message | None = None
        """The bare Message behind `end`, if it is one."""

    def say(self, said: Emission) -> bool:
        """Take what the agent says; False: `room` is to be awaited before it says more.

        Raises:
            MalformedOutput: it can't stand in a log, or not at this point.
            LegOver: the leg has ended without it.
        """
        try:
            if type(said) is str and (chunk := self._rendering.chunk(said)) is not None:
                return self._outbox.offer(chunk) and not self._breath.is_due()
            return self._say(said) and not self._breath.is_due()
        except TypeError as error:
            raise MalformedOutput(
                f"{type(said).__name__} holds what is not JSON: {error}"
            ) from error

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        said: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Say `said`, save `data` with everything said so far, and return when both are stored.

        Raises:
            MalformedOutput: it is no JSON, is too large, or can't be saved at this point.
            LegOver: the leg has ended without it.
        """
        if self.end is not None:
            raise MalformedOutput("a checkpoint after the leg's end")
        *before, last = self._rendering.checkpoint(said)
        held = Checkpoint(data, self._ids.minted, self._rendering.next_index).encode()
        for draft in before:
            self._outbox.offer(draft)
        self._has_spoken = True
        await self._outbox.deliver(last, checkpoint=held)

    async def room(self) -> None:
        """Return when the log has caught up with what was said."""
        await self._breath.take()
        await self._outbox.room()

    def _say(self, said: Emission) -> bool:
        if self.end is not None:
            raise MalformedOutput(f"{type(said).__name__} after the leg's end")
        if isinstance(said, str):
            said = Text(said)
        if isinstance(said, ENDINGS):
            return self._say_last(said)
        if isinstance(said, Usage):
            self.expense.add(said)
        has_room = True
        for draft in self._rendering.drafts(said):
            has_room = self._outbox.offer(draft)
            self._has_spoken = True
        return has_room

    def _say_last(self, said: Ending) -> bool:
        if isinstance(said, Message) and not self._may_answer:
            raise MalformedOutput("a bare Message, which this agent has not declared")
        if isinstance(said, Message) and self._has_spoken:
            raise MalformedOutput("a bare Message beside other output")
        end = self._endings.of(said)
        self._outbox.check(end.draft)
        self._rendering.stop()
        self.end, self.answer = end, said if isinstance(said, Message) else None
        return True
