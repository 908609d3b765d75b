"""The time of a test fleet: it passes by itself, and tests let more of it pass at once.

Timers that agents set fire by this time: those of ``asyncio.sleep``, ``asyncio.timeout``,
``asyncio.wait_for``, ``loop.call_later`` and of libraries that use these. So do the limits that the
fleet keeps for tasks. The timers of the fleet itself, which agents' calls set too, fire by the
machine's time: a request to NATS does not time out because an agent sleeps for an hour.
"""

import asyncio
import heapq
import itertools
import math
import sys
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from datetime import datetime, timedelta
from types import FrameType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from headrace.clock import TaskClock

_FLEET = ("headrace.", "headrace_worker.", "headrace_gateway.", "headrace_task_state.", "nats.")
"""Packages whose timers are the fleet's, also if an agent's call sets them."""

_OF_AGENTS = ("headrace.sdk.", "headrace.adapters.", "headrace.demo")
"""Modules of these packages whose timers are agents'."""

_LOOPS = ("asyncio.base_events", "asyncio.runners")
"""Modules that call what waits in a loop: the code that set a timer is above them in the stack."""

_QUIET = 3
"""Rounds without activity after which agents count as waiting."""

_ROUND = 0.001
"""Seconds of a round: longer than a message takes between two threads."""

_TURNS = 20
"""Turns of the event loop in a round."""

_LONGEST = 0.5
"""Maximum seconds to wait for agents that do not come to rest."""

_agents_clock: ContextVar["FleetClock | None"] = ContextVar("agents_clock", default=None)


class _Timer:
    """A timer by a fleet's time, with the methods of `asyncio.TimerHandle`."""

    __slots__ = ("_args", "_callback", "_context", "due", "real")

    def __init__(
        self, due: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.due, self._callback, self._args, self._context = due, callback, args, context
        self.real: asyncio.TimerHandle | None = None
        """Fires it when time has passed by itself. None: it has fired, or was cancelled."""

    def cancel(self) -> None:
        if self.real is not None:
            self.real.cancel()
            self.real = None

    def cancelled(self) -> bool:
        return self.real is None

    def when(self) -> float:
        return self.due

    def fire(self) -> None:
        """Call the callback, unless the timer was cancelled."""
        if self.real is not None:
            self.cancel()
            self._context.run(self._callback, *self._args)


class FleetClock(TaskClock):
    """The time of one test fleet, on the running loop."""

    def __init__(self, activity: Callable[[], object]) -> None:
        """Start at the machine's time.

        Args:
            activity: Returns another value after the fleet did something.
        """
        self._loop = asyncio.get_running_loop()
        self._activity = activity
        self._offset = 0.0
        """Seconds that tests let pass at once."""
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._set = 0
        """Number of timers that were set."""
        self._real = _LoopTimers.of(self._loop)

    def close(self) -> None:
        """Stop; timers that are set still fire."""
        self._real.release(self._loop)

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return super().now() + timedelta(seconds=self._offset)

    def time(self) -> float:
        """Return the loop's time as agents see it, in seconds."""
        return self._real.time() + self._offset

    def call_later(
        self,
        seconds: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - the callback's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` after `seconds` of this time."""
        return self.call_at(self.time() + seconds, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,  # noqa: ANN401 - the callback's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` at the time `when`, as `time` returns it."""
        timer = _Timer(when, callback, args, copy_context() if context is None else context)
        self._set += 1
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        self._arm(timer)
        handle: Any = timer
        return handle  # type: ignore[no-any-return]  # it has a handle's methods

    def agents_context(self) -> Context:
        """Return a context in which timers fire by this time."""
        context = super().agents_context()
        context.run(_agents_clock.set, self)
        return context

    async def advance(self, seconds: float) -> None:
        """Let `seconds` pass: fire the timers that are due in order, each at its own time.

        After each, wait until agents have done what they do then.

        Raises:
            ValueError: `seconds` is negative or not finite.
        """
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"can't advance time by {seconds} s; allowed: 0 and more")
        await self._rest()
        left = seconds
        while (timer := self._first()) is not None and timer.due <= self.time() + left:
            left -= self._jump(min(max(timer.due - self.time(), 0.0), left))
            timer.fire()
            await self._rest()
        self._jump(max(left, 0.0))

    def _first(self) -> _Timer | None:
        """Return the timer that is due next."""
        while self._timers:
            timer = self._timers[0][2]
            if not timer.cancelled():
                return timer
            heapq.heappop(self._timers)
        return None

    def _jump(self, seconds: float) -> float:
        self._offset += seconds
        self._timers = [one for one in self._timers if not one[2].cancelled()]
        heapq.heapify(self._timers)
        for _, _, timer in self._timers:
            self._arm(timer)
        return seconds

    def _arm(self, timer: _Timer) -> None:
        if timer.real is not None:
            timer.real.cancel()
        timer.real = self._real.call_at(timer.due - self._offset, timer.fire)

    async def _rest(self) -> None:
        """Wait until agents wait: for timers, for each other, or for the test."""
        quiet, deadline = 0, self._real.time() + _LONGEST
        while quiet < _QUIET and self._real.time() < deadline:
            before = self._activity(), self._set
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            await asyncio.sleep(_ROUND)
            quiet = quiet + 1 if (self._activity(), self._set) == before else 0


class _LoopTimers:
    """A loop whose timers go by a fleet's time where an agent sets them.

    The loop's methods are replaced on the loop itself, because asyncio offers no other place.
    """

    _of: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, "_LoopTimers"]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._users = 0
        self.time, self.call_at, self._call_later = loop.time, loop.call_at, loop.call_later
        patched: Any = loop
        patched.time, patched.call_at = self._time_of_caller, self._call_at_of_caller
        patched.call_later = self._call_later_of_caller

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "_LoopTimers":
        """Return the loop's; each call needs a `release`."""
        timers = cls._of.get(loop) or cls._of.setdefault(loop, cls(loop))
        timers._users += 1  # noqa: SLF001 - its own
        return timers

    def release(self, loop: asyncio.AbstractEventLoop) -> None:
        """Restore the loop's methods, if no fleet needs the replacements any more."""
        self._users -= 1
        if not self._users:
            del self._of[loop]
            patched: Any = loop
            del patched.time, patched.call_at, patched.call_later

    def _time_of_caller(self) -> float:
        clock = _agents()
        return self.time() if clock is None else clock.time()

    def _call_at_of_caller(self, when: float, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the loop's
        clock = _agents()
        return (self.call_at if clock is None else clock.call_at)(when, *args, **options)

    def _call_later_of_caller(self, delay: float, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the loop's
        clock = _agents()
        return (self._call_later if clock is None else clock.call_later)(delay, *args, **options)


def _agents() -> FleetClock | None:
    """Return the clock of the agent that calls the loop; None: the fleet calls it, or a test."""
    clock = _agents_clock.get()
    return clock if clock is not None and _is_agents_call() else None


def _is_agents_call() -> bool:
    """Return whether the caller of asyncio is an agent or a library, and not the fleet."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - how `warnings` finds a caller, too
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name in _LOOPS:
            return False
        if name != __name__ and name.partition(".")[0] != "asyncio":
            return name.startswith(_OF_AGENTS) or not name.startswith(_FLEET)
        frame = frame.f_back
    return False
