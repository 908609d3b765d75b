"""How many tasks of a tenant, an owner or an agent are open, for quotas that limit them."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from headrace.model.errors import StateUnavailable
from headrace.model.messages import ListTasks, TasksFound
from headrace.model.task import SUBMITTED, WORKING

_log = logging.getLogger(__name__)

_YOUNG = 0.1
"""Seconds for which the count behind one refusal is used for others."""

_TIMEOUT = 1.0
"""Seconds to wait for a count; without one, runs begin."""

_MOST = 10_000
"""Counts kept; beyond, those that are not fresh are dropped."""


class TaskLists(Protocol):
    """Task state, as far as open tasks are counted."""

    async def list(self, query: ListTasks) -> TasksFound:
        """Return a page; raises StateUnavailable."""


class OpenScope(NamedTuple):
    """Whose tasks are counted; tenant and owner as subject tokens."""

    tenant: str
    owner: str | None
    """None: all owners'."""
    agent: str | None
    """None: all agents'."""


@dataclass(slots=True)
class _OpenCount:
    at: float = float("-inf")
    """When the last read began; time of the loop."""
    found: int = 0
    begun: int = 0
    """Tasks that this process has begun since."""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class OpenTaskCounts:
    """Counts of open tasks: SUBMITTED, because they wait for a worker or their time, or WORKING.

    A count is used for `fresh` seconds, together with what this process has begun since. Nothing is
    found to be at its limit by an old count.
    """

    def __init__(self, lists: TaskLists, fresh: float) -> None:
        """Count with `lists`, which are complete as of their request."""
        self._lists, self._fresh = lists, fresh
        self._counts: dict[OpenScope, _OpenCount] = {}

    async def number(self, scope: OpenScope, limit: int) -> int:
        """Return how many tasks are open: exactly, except the last moment, if `limit` or more."""
        count = self._count(scope)
        async with count.reading:
            age = asyncio.get_running_loop().time() - count.at
            is_full = count.found + count.begun >= limit
            if age >= (min(_YOUNG, self._fresh) if is_full else self._fresh):
                await self._read(scope, count)
        return count.found + count.begun

    def begun(self, scope: OpenScope) -> None:
        """Count a task that this process has begun."""
        self._count(scope).begun += 1

    def _count(self, scope: OpenScope) -> _OpenCount:
        if scope not in self._counts and len(self._counts) >= _MOST:
            since = asyncio.get_running_loop().time() - self._fresh
            self._counts = {key: one for key, one in self._counts.items() if one.at > since}
        return self._counts.setdefault(scope, _OpenCount())

    async def _read(self, scope: OpenScope, count: _OpenCount) -> None:
        count.at, count.begun = asyncio.get_running_loop().time(), 0
        try:
            async with asyncio.timeout(_TIMEOUT):
                count.found = await self._number(scope)
        except (StateUnavailable, TimeoutError) as error:
            count.found = 0
            _log.warning("quotas: can't count open tasks: %s", error or "no answer in time")

    async def _number(self, scope: OpenScope) -> int:
        # In one query: of two, a task that begins to work meanwhile would be in both.
        query = ListTasks(
            tenant=scope.tenant,
            owner=scope.owner or "",
            any_owner=scope.owner is None,
            agents=[scope.agent] if scope.agent else [],
            states=[SUBMITTED, WORKING],
            page_size=1,
            history_length=0,
        )
        return (await self._lists.list(query)).total_size
