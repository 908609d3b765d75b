"""What an agent emits: checked, encoded as events, and handed to the appender."""

import asyncio
import time
from typing import Any

from headrace.sdk.emit import ENDINGS, Emission, Ending, Message, Text, ToolArguments, ToolResult
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.signals import Usage
from headrace_worker.appender import Appender
from headrace_worker.checkpoint import Checkpoint
from headrace_worker.encoder import Encoder, End, Endings, RunIds
from headrace_worker.usage import UsageTotals

INTERVAL = 0.02
"""Seconds that an agent may keep the loop before its next word makes it pause."""

_PAUSE = 0.001


class LoopTurns:
    """Notices that the loop has had no turn, and gives it one."""

    def __init__(self) -> None:
        """Watch from now on."""
        self._loop = asyncio.get_running_loop()
        self._check_at = time.monotonic() + INTERVAL
        self._had_a_turn = True
        self._is_due = False

    def is_due(self) -> bool:
        """Tell whether the loop has had no turn for about `INTERVAL`. Costs less than 0.1 µs."""
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + INTERVAL
        self._is_due = not self._had_a_turn
        self._had_a_turn = False
        self._loop.call_soon(self._turn)
        return self._is_due

    async def take(self) -> None:
        """Give the loop a turn if one is due: long enough to send and receive."""
        if self._is_due:
            self._is_due = False
            await asyncio.sleep(_PAUSE)

    def _turn(self) -> None:
        self._had_a_turn = True


class Emitter:
    """What one attempt at a run emits."""

    def __init__(
        self,
        encoder: Encoder,
        endings: Endings,
        appender: Appender,
        ids: RunIds,
        *,
        usage_totals: UsageTotals,
        may_answer: bool,
    ) -> None:
        """Emit into `appender`; `may_answer`: a bare Message instead of a task is allowed.

        `usage_totals` hold what former attempts at the run have used.
        """
        self._ids = ids
        self._encoder, self._endings, self._appender = encoder, endings, appender
        self._may_answer = may_answer
        self._has_emitted = False
        self._loop_turns = LoopTurns()
        self.new_id = ids.mint
        self.usage_totals = usage_totals
        self.end: End | None = None
        """The end that the agent asked for; None: it has not."""
        self.answer: Message | None = None
        """The bare Message behind `end`, if it is one."""

    def emit(self, said: Emission) -> bool:
        """Take what the agent emits; False: `room` is to be awaited before it emits more.

        Raises:
            MalformedOutput: it can't stand in a log, or not at this point.
            RunOver: the run has ended without it.
        """
        try:
            if type(said) is str and (chunk := self._encoder.chunk(said)) is not None:
                return self._appender.offer(chunk) and not self._loop_turns.is_due()
            return self._emit(said) and not self._loop_turns.is_due()
        except TypeError as error:
            raise MalformedOutput(
                f"{type(said).__name__} holds what is not JSON: {error}"
            ) from error

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        said: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Emit `said`, save `data` with all that was emitted, and return when both are stored.

        Raises:
            MalformedOutput: it is no JSON, is too large, or can't be saved at this point.
            RunOver: the run has ended without it.
        """
        if self.end is not None:
            raise MalformedOutput("a checkpoint after the run's end")
        *before, last = self._encoder.checkpoint(said)
        held = Checkpoint(data, self._ids.minted, self._encoder.next_index).encode()
        for draft in before:
            self._appender.offer(draft)
        self._has_emitted = True
        await self._appender.deliver(last, checkpoint=held)

    async def room(self) -> None:
        """Return when the log has caught up with what was emitted."""
        await self._loop_turns.take()
        await self._appender.room()

    def _emit(self, said: Emission) -> bool:
        if self.end is not None:
            raise MalformedOutput(f"{type(said).__name__} after the run's end")
        if isinstance(said, str):
            said = Text(said)
        if isinstance(said, ENDINGS):
            return self._end_with(said)
        if isinstance(said, Usage):
            self.usage_totals.add(said)
        has_room = True
        for draft in self._encoder.drafts(said):
            has_room = self._appender.offer(draft)
            self._has_emitted = True
        return has_room

    def _end_with(self, said: Ending) -> bool:
        if isinstance(said, Message) and not self._may_answer:
            raise MalformedOutput("a bare Message: declare it with the agent first")
        if isinstance(said, Message) and self._has_emitted:
            raise MalformedOutput("a bare Message beside other output")
        end = self._endings.of(said)
        self._appender.check(end.draft)
        self._encoder.stop()
        self.end, self.answer = end, said if isinstance(said, Message) else None
        return True
