"""Owners of tasks, for the audit log."""

import asyncio

from headrace.jetstream.connection import Bus
from headrace.log.find import first_entry
from headrace.model.errors import BusUnavailable, TaskUnknown
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.tasks.ids import task_key

_LONGEST = 2.0
"""Seconds after which a request continues without the owner: an operator acts during outages."""


class TaskOwners:
    """Finds the owners of tasks."""

    def __init__(self, bus: Bus) -> None:
        """Read logs on `bus`."""
        self._bus = bus

    async def owner_of(self, caller: Caller, agent: str, task: str) -> str | None:
        """Return the owner, as a subject token, of the agent's task in the caller's tenant.

        Only the beginning of a log names it as a gateway wrote it. None: there is no such task, its
        log has no beginning any more, or NATS does not answer in time.
        """
        try:
            key = task_key(self._bus.settings, caller, agent, task)
            async with asyncio.timeout(_LONGEST):
                first = await first_entry(self._bus, key)
        except (TaskUnknown, BusUnavailable, TimeoutError):
            return None
        return None if first is None or first.generation > 1 else first.stamp.owner
