"""What becomes of triggers' events, gathered and written at most once a second per trigger."""

import asyncio
import logging
from collections import Counter, deque
from dataclasses import dataclass, field

from headrace import clock
from headrace.model.errors import HeadraceError
from headrace.model.events import timestamp
from headrace.trigger_firings import (
    KEPT_FIRINGS,
    PROBLEM_SECONDS,
    FiringHistory,
    TriggerFailure,
    TriggerFiring,
)
from headrace.triggers import Trigger
from headrace_triggers.delivery import EventOutcome
from headrace_triggers.firing import Fired

_log = logging.getLogger(__name__)

_EVERY = 1.0
_PROBLEM_EVERY = PROBLEM_SECONDS / 3
_MOST_REASON = 500


@dataclass(slots=True)
class _Noted:
    """What is to be written of one trigger."""

    trigger: Trigger
    firings: deque[TriggerFiring] = field(default_factory=lambda: deque(maxlen=KEPT_FIRINGS))
    failures: deque[TriggerFailure] = field(default_factory=lambda: deque(maxlen=KEPT_FIRINGS))
    numbers: Counter[str] = field(default_factory=Counter)
    """Numbers of failures, by outcome."""
    problem: str | None = None


class FiringRecorder:
    """The events of one replica."""

    def __init__(self, history: FiringHistory) -> None:
        """Write to `history`."""
        self._history = history
        self._changed = asyncio.Event()
        self._pending = dict[str, _Noted]()
        """By the trigger's identity: many events a second cost one write."""
        self._written = dict[str, tuple[str, float]]()
        """Problems, by the trigger's identity, and when they were written, in loop time."""

    def note(self, trigger: Trigger, fired: Fired) -> None:
        """Take in a firing, to be written soon."""
        firing = TriggerFiring(
            at=timestamp(clock.now()), agent=fired.key.agent, task=fired.key.task
        )
        self._noted(trigger).firings.append(firing)

    def note_outcome(self, trigger: Trigger, outcome: EventOutcome) -> None:
        """Take in what became of an event that has begun no task."""
        if outcome.kind == "waits":
            self.note_problem(trigger, outcome.reason)
            return
        noted = self._noted(trigger)
        noted.numbers[outcome.kind] += 1
        noted.failures.append(
            TriggerFailure(
                at=timestamp(clock.now()),
                outcome=outcome.kind,
                reason=outcome.reason[:_MOST_REASON],
                stream=outcome.stream,
                sequence=outcome.sequence,
            )
        )

    def note_problem(self, trigger: Trigger, reason: str) -> None:
        """Take in why the trigger's events begin no tasks at the moment."""
        now, reason = asyncio.get_running_loop().time(), reason[:_MOST_REASON]
        before, at = self._written.get(trigger.identity, ("", float("-inf")))
        if before != reason or now > at + _PROBLEM_EVERY:
            self._noted(trigger).problem = reason

    def _noted(self, trigger: Trigger) -> _Noted:
        self._changed.set()
        return self._pending.setdefault(trigger.identity, _Noted(trigger))

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(_EVERY)
            self._changed.clear()
            await self.write()

    async def write(self) -> None:
        """Write what was taken in. What can't be written is left out: it is not needed."""
        pending, self._pending = self._pending, {}
        now = asyncio.get_running_loop().time()
        stale = [one for one, (_, at) in self._written.items() if at < now - PROBLEM_SECONDS]
        for identity in stale:
            del self._written[identity]
        for noted in pending.values():
            try:
                await self._write(noted, now)
            except HeadraceError as error:
                _log.debug("%s: its events are not recorded: %s", noted.trigger.source, error)

    async def _write(self, noted: _Noted, now: float) -> None:
        trigger = noted.trigger
        if noted.problem is not None:
            self._written[trigger.identity] = noted.problem, now
            await self._history.note_problem(trigger, timestamp(clock.now()), noted.problem)
        if noted.firings or noted.failures:
            await self._history.add(
                trigger,
                noted.firings,
                noted.failures,
                letters=noted.numbers["letter"],
                dropped=noted.numbers["dropped"],
            )
