"""Emitter of an agent's output: checks it, encodes it as events and offers them to the appender."""

import asyncio
import logging
import time
from typing import Any

from headrace.model import json_text
from headrace.sdk.checkpoint import Checkpoint
from headrace.sdk.emit import (
    ENDINGS,
    Emission,
    Ending,
    File,
    Message,
    Status,
    Text,
    Thinking,
    ToolArguments,
    ToolResult,
)
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.signals import Step, Subagent, Usage
from headrace.sdk.steps import Steps
from headrace_worker.appender import Appender
from headrace_worker.encoder import Encoder, End, Endings
from headrace_worker.usage import Prices, UsageTotals

_log = logging.getLogger(__name__)

INTERVAL = 0.02
"""Seconds that an agent may block the event loop before its next output makes it pause."""

_PAUSE = 0.001


class LoopTurns:
    """Detects that the event loop is blocked, and yields to it."""

    def __init__(self) -> None:
        """Start measuring now."""
        self._loop = asyncio.get_running_loop()
        self._check_at = time.monotonic() + INTERVAL
        self._had_a_turn = True
        self._is_due = False

    def is_due(self) -> bool:
        """Return whether the loop has been blocked for about `INTERVAL`. Costs less than 0.1 µs."""
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + INTERVAL
        self._is_due = not self._had_a_turn
        self._had_a_turn = False
        self._loop.call_soon(self._turn)
        return self._is_due

    async def yield_if_due(self) -> None:
        """Yield to the loop if that is due, long enough to send and receive."""
        if self._is_due:
            self._is_due = False
            await asyncio.sleep(_PAUSE)

    def _turn(self) -> None:
        self._had_a_turn = True


_WITHOUT_NUMBERS = frozenset({str, Text, Thinking, ToolArguments, File, Status, Step, Subagent})
"""Types of output whose fields are all text, so that a token costs nothing."""


class LostNumbers:
    """Warns once in an attempt at a run."""

    __slots__ = ("_has_warned", "_task")

    def __init__(self, task: str) -> None:
        """Warn about the output of the attempt at a run of `task`."""
        self._task, self._has_warned = task, False

    def check(self, output: object, encoded: bytes, name: str = "") -> None:
        """Warn if `encoded` has null for a number of `output`, which is called `name`."""
        if self._has_warned or type(output) in _WITHOUT_NUMBERS:
            return
        found = json_text.lost_number(output, encoded, name or type(output).__name__)
        if found is not None:
            self._has_warned = True
            _log.warning(
                "task %s: %s is %s, which JSON does not have: clients get null. This is reported "
                "once for each attempt at a run",
                self._task,
                *found,
            )


class Emitter:
    """The output of one attempt at a run."""

    def __init__(
        self,
        encoder: Encoder,
        endings: Endings,
        appender: Appender,
        *,
        prices: Prices,
        used: UsageTotals | None,
        may_answer: bool,
    ) -> None:
        """Emit into `appender`; `may_answer` allows a bare Message instead of a task.

        `used` is the usage of earlier attempts at the run, if there was any.
        """
        self._encoder, self._endings, self._appender = encoder, endings, appender
        self._may_answer, self._prices, self.used = may_answer, prices, used
        self._has_emitted = False
        self._loop_turns = LoopTurns()
        self._lost_numbers = LostNumbers(encoder.task)
        self.new_id = encoder.ids.mint
        self.end: End | None = None
        """The end that the agent emitted, or None."""
        self.steps: Steps | None = None
        """The run's steps; None: the log has none, and the attempt has asked for none."""
        self.answer: Message | None = None
        """The bare Message that `end` was made from, if any."""

    def emit(self, output: Emission) -> bool:
        """Emit the agent's output; if False, await `drain` before emitting more.

        Raises:
            MalformedOutput: the output is invalid, or not allowed at this point.
            RunOver: the run is over.
        """
        try:
            if type(output) is str:
                if (chunks := self._encoder.continued(output)) is not None:
                    is_room = self._appender.offer_piece(chunks, output)
                    return is_room and not self._loop_turns.is_due()
                if (chunk := self._encoder.chunk(output)) is not None:
                    return self._appender.offer_text(chunk) and not self._loop_turns.is_due()
            return self._emit(output) and not self._loop_turns.is_due()
        except TypeError as error:
            raise MalformedOutput(f"{type(output).__name__} must be JSON: {error}") from error

    async def checkpoint(
        self,
        data: Any,  # noqa: ANN401  # any JSON
        output: ToolArguments | ToolResult | None = None,
    ) -> None:
        """Emit `output`, save `data` as a checkpoint after it, and wait until both are stored.

        Raises:
            MalformedOutput: `data` is not JSON or too large, or can't be saved at this point.
            RunOver: the run is over.
        """
        if self.end is not None:
            raise MalformedOutput("a checkpoint after the run's end")
        *before, last = self._encoder.checkpoint(output)
        left = [] if self.steps is None else self.steps.unasked
        ids, index = self._encoder.ids.minted, self._encoder.next_index
        held = Checkpoint(data, ids, index, left).encode()
        self._lost_numbers.check(data, held.encode(), "checkpoint")
        for draft in before:
            self._appender.offer(draft)
        self._has_emitted = True
        await self._appender.deliver(last, checkpoint=held)

    async def drain(self) -> None:
        """Wait until the log has caught up with the output."""
        await self._loop_turns.yield_if_due()
        await self._appender.drain()

    @property
    def state(self) -> Any:  # noqa: ANN401  # any JSON
        """A copy of the state that the agent shares with its user interface."""
        return self._encoder.state.now

    @property
    def usage(self) -> UsageTotals:
        """What the run has used, also if nothing has been reported yet."""
        self.used = self.used or UsageTotals()
        return self.used

    def _emit(self, output: Emission) -> bool:
        if self.end is not None:
            raise MalformedOutput(f"{type(output).__name__} after the run's end")
        if isinstance(output, str):
            output = Text(output)
        if isinstance(output, ENDINGS):
            return self._end_with(output)
        if isinstance(output, Usage):
            output = self.usage.add_priced(output, self._prices)
        has_room = True
        for draft in self._encoder.drafts(output):
            self._lost_numbers.check(output, draft.head)
            has_room = self._appender.offer(draft)
            self._has_emitted = True
        return has_room

    def _end_with(self, output: Ending) -> bool:
        if isinstance(output, Message) and not self._may_answer:
            raise MalformedOutput("a bare Message is only allowed if the agent declares it")
        if isinstance(output, Message) and self._has_emitted:
            raise MalformedOutput("a bare Message must be the only output")
        end = self._endings.of(output)
        self._lost_numbers.check(output, end.draft.head)
        self._appender.check(end.draft)
        self._encoder.stop()
        self.end, self.answer = end, output if isinstance(output, Message) else None
        return True
