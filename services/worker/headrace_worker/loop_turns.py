"""Letting the loop run when an agent emits without ever awaiting anything.

An agent that reads a model's answer through a blocking client yields token after token and never
gives the loop a turn: nothing of it would be sent before its buffer is full.
"""

import asyncio
import time

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
