"""One replica among others: it takes its share of the ranges and hands over the rest."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from headrace.model.errors import StateUnavailable
from headrace.ticks import tick
from headrace_task_state.store import Lease, Leases, LeaseSurvey, Range

_log = logging.getLogger(__name__)

RENEW_EVERY = 1.0
"""Seconds between renewals; two may fail before a lease lapses."""

type Duties = Callable[[Lease], Iterable[Coroutine[Any, Any, None]]]
"""The work for a range while its lease is held."""


def share_of(replica: str, replicas: list[str], ranges: int) -> int:
    """Return how many ranges `replica` should hold; the shares add up to all ranges."""
    least, more = divmod(ranges, len(replicas))
    return least + (1 if replicas.index(replica) < more else 0)


class Replica:
    """Holds leases, and does the duties of each range it holds."""

    def __init__(
        self,
        name: str,
        leases: Leases,
        ranges: Iterable[Range],
        duties: Duties,
        interval: float = RENEW_EVERY,
    ) -> None:
        """Start without leases, which are renewed every `interval` seconds.

        `name` is the replica of `leases`.
        """
        self._interval = interval
        self._name, self._leases, self._duties = name, leases, duties
        self._ranges = list(ranges)
        self._held: dict[Range, Lease] = {}
        self._working: dict[Range, list[asyncio.Task[None]]] = {}

    @property
    def held(self) -> list[Range]:
        """The ranges that it holds, as far as it knows."""
        return sorted(self._held)

    async def run(self) -> None:
        """Renew, take and release leases until cancelled."""
        while True:
            try:
                await self._renew()
            except StateUnavailable as error:
                _log.warning("could not renew leases: %s", error)
            await tick(self._interval)

    async def stop(self) -> None:
        """Stop all work and release all leases, so that other replicas take over immediately."""
        held = list(self._held.values())
        for lease in held:
            await self._drop(lease.range)
        try:
            await self._leases.release(held)
            await self._leases.leave()
        except StateUnavailable as error:
            _log.warning("leases could not be released and will expire: %s", error)

    async def _renew(self) -> None:
        await self._hand_over([place for place in self._held if self._is_idle(place)])
        survey = await self._leases.renew(self._held)
        for place in survey.lost:
            await self._drop(place)
        share = share_of(self._name, survey.replicas, len(self._ranges))
        await self._hand_over(sorted(self._held)[share:])
        await self._acquire(survey, share)

    def _is_idle(self, place: Range) -> bool:
        """Return whether a duty has ended, because the lease was lost or an error occurred."""
        return any(task.done() for task in self._working[place])

    async def _hand_over(self, surplus: list[Range]) -> None:
        leases = [self._held[place] for place in surplus]
        for place in surplus:
            _log.info("released range %s", place.name)
            await self._drop(place)
        if leases:
            await self._leases.release(leases)

    async def _acquire(self, survey: LeaseSurvey, share: int) -> None:
        # In random order, so that replicas that run simultaneously try different ranges.
        for place in random.sample(survey.free, len(survey.free)):
            if len(self._held) >= share:
                return
            lease = await self._leases.acquire(place)
            if lease is not None:
                self._held[place] = lease
                self._working[place] = [
                    asyncio.create_task(duty, name=f"range {place.name}")
                    for duty in self._duties(lease)
                ]

    async def _drop(self, place: Range) -> None:
        self._held.pop(place, None)
        tasks = self._working.pop(place, [])
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("range %s failed", place.name, exc_info=outcome)
