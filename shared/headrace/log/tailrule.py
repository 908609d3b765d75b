"""The tail rule: live is a hint, only a read of the leader shows that nothing is missing.

Republish skips messages at server kills and leader stepdowns without any disconnect. A gap shows
when the next message comes; if none comes, only a read shows it. So a process re-checks each log
that it follows: 250 ms after it subscribed, at once after a disturbance or a poke, and while the
log is open and silent after 2 s, backing off to 10 s.
"""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.bus import Bus
from headrace.errors import BusUnavailable
from headrace.log.lasts import last_sequences
from headrace.task import TaskKey

_log = logging.getLogger(__name__)

FIRST_CHECK = 0.25
"""Seconds after subscribing to the first check."""
SILENCE = 2.0
"""Seconds of silence after which an open log is checked."""
SILENCE_MAX = 10.0
"""What the silence backs off to, seconds."""

_TICK = 0.05
_AFTER_TROUBLE = 0.5


class Watched(Protocol):
    """What the rule needs of a follower."""

    key: TaskKey
    heard: float
    """When the last message of the log arrived, loop time in seconds."""

    def tail_is(self, sequence: int) -> None:
        """Be told the leader's last sequence of the log; 0: the log is empty."""


@dataclass(slots=True)
class _Plan:
    silence: float = SILENCE
    ticket: int = -1
    forced: bool = True


class TailRule:
    """Checks the tails of all logs that this process follows."""

    def __init__(self, bus: Bus) -> None:
        """Watch nothing yet; `start` begins."""
        self._bus = bus
        self._watched: dict[Watched, _Plan] = {}
        self._due: list[tuple[float, int, Watched]] = []
        self._tickets = itertools.count()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._pokes: Subscription | None = None
        self._unregister = bus.on_disturbance(self.check_all)

    async def start(self) -> None:
        """Begin to check, and to listen for pokes."""
        self._task = asyncio.create_task(self._run(), name="tail rule")
        self._pokes = await self._bus.connection.subscribe(
            self._bus.subjects.poke("*"), cb=self._on_poke
        )

    async def stop(self) -> None:
        """End all checks."""
        self._unregister()
        if self._pokes is not None:
            await self._pokes.unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def watch(self, follower: Watched, first: float = FIRST_CHECK) -> None:
        """Check `follower`'s log from now on, first after `first` seconds."""
        self._watched[follower] = _Plan()
        self._schedule(follower, first, forced=True)

    def forget(self, follower: Watched) -> None:
        """Check it no more."""
        self._watched.pop(follower, None)

    def check_all(self) -> None:
        """Check every log at once: live messages may have been missed."""
        for follower in self._watched:
            self._check_now(follower)

    async def _on_poke(self, msg: Msg) -> None:
        task = msg.subject.rpartition(".")[2]
        for follower in self._watched:
            if follower.key.task == task:
                self._check_now(follower)

    def _check_now(self, follower: Watched) -> None:
        self._watched[follower].silence = SILENCE
        self._schedule(follower, 0, forced=True)

    def _schedule(self, follower: Watched, delay: float, *, forced: bool) -> None:
        """Plan the follower's one next check; an earlier plan of its is void from now on."""
        plan = self._watched[follower]
        plan.ticket, plan.forced = next(self._tickets), forced
        heapq.heappush(self._due, (self._loop.time() + delay, plan.ticket, follower))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._sleep()
            if due := self._take_due():
                await self._check(due)

    async def _sleep(self) -> None:
        self._wake.clear()
        delay = self._due[0][0] - self._loop.time() if self._due else None
        try:
            async with asyncio.timeout(delay):
                await self._wake.wait()
        except TimeoutError:
            return
        # Checks that fall due together are asked together.
        await asyncio.sleep(_TICK)

    def _take_due(self) -> list[Watched]:
        """Return the followers to check now; those heard from lately are put off, unread."""
        now, taken = self._loop.time(), []
        while self._due and self._due[0][0] <= now:
            _, ticket, follower = heapq.heappop(self._due)
            plan = self._watched.get(follower)
            if plan is None or plan.ticket != ticket:
                continue
            quiet_for = now - follower.heard
            if plan.forced or quiet_for >= SILENCE:
                taken.append(follower)
            else:
                self._schedule(follower, SILENCE - quiet_for, forced=False)
        return taken

    async def _check(self, due: list[Watched]) -> None:
        try:
            tails = await last_sequences(self._bus, _keys(due))
        except BusUnavailable as trouble:
            _log.debug("tail rule: %s", trouble)
            for follower in self._still_watched(due):
                self._schedule(follower, _AFTER_TROUBLE, forced=True)
            return
        for follower in self._still_watched(due):
            plan = self._watched[follower]
            self._schedule(follower, plan.silence, forced=False)
            plan.silence = min(plan.silence * 2, SILENCE_MAX)
            follower.tail_is(tails[follower.key])

    def _still_watched(self, followers: list[Watched]) -> list[Watched]:
        return [follower for follower in followers if follower in self._watched]


def _keys(followers: Iterable[Watched]) -> list[TaskKey]:
    return list({follower.key for follower in followers})
