"""The last firings of triggers, gathered and written at most once a second per trigger."""

import asyncio
import logging
from collections import deque

from headrace import clock
from headrace.model.errors import HeadraceError
from headrace.model.timestamp import timestamp
from headrace.trigger_firings import KEPT_FIRINGS, FiringHistory, TriggerFiring
from headrace.triggers import Trigger
from headrace_triggers.firing import Fired

_log = logging.getLogger(__name__)

_EVERY = 1.0


class FiringRecorder:
    """The firings of one replica."""

    def __init__(self, history: FiringHistory) -> None:
        """Write to `history`."""
        self._history = history
        self._noted = asyncio.Event()
        self._pending: dict[str, tuple[Trigger, deque[TriggerFiring]]] = {}
        """By the trigger's identity: many events a second cost one write."""

    def note(self, trigger: Trigger, fired: Fired) -> None:
        """Take in a firing, to be written soon."""
        firing = TriggerFiring(
            at=timestamp(clock.now()), agent=fired.key.agent, task=fired.key.task
        )
        fresh = trigger, deque[TriggerFiring](maxlen=KEPT_FIRINGS)
        self._pending.setdefault(trigger.identity, fresh)[1].append(firing)
        self._noted.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._noted.wait()
            await asyncio.sleep(_EVERY)
            self._noted.clear()
            await self.write()

    async def write(self) -> None:
        """Write what was taken in. What can't be written is left out: it is not needed."""
        pending, self._pending = self._pending, {}
        for trigger, firings in pending.values():
            try:
                await self._history.add(trigger, firings)
            except HeadraceError as error:
                _log.debug("%s: its last firings are not recorded: %s", trigger.source, error)
