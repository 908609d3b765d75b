"""Detection that another writer has taken over a log while its agent is silent.

An agent that emits output finds out by its next append. For a silent agent, the watch follows the
log's live subject and applies the tail rule, from the first second of silence on. Busy and short
runs therefore cost nothing here.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Self

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model.entry import parse_stamp
from headrace.model.errors import UndecodableMessage
from headrace.ticks import tick
from headrace_worker.appender import Appender

_log = logging.getLogger(__name__)

SILENCE = 1.0
"""Seconds without an append after which a run is watched."""

_TICK = 0.5
_STALL = 2.0
"""Seconds by which a tick may be late; after that, the process was suspended or an agent blocked
the event loop, and every log is checked: another worker may have taken over."""


class Watch:
    """Watch on the runs of one worker."""

    def __init__(self, bus: Bus, rule: TailRule, at_work: Callable[[], Iterable[Appender]]) -> None:
        """Watch the logs that `at_work` returns: those of the runs whose agents are at work."""
        self._bus, self._rule, self._at_work = bus, rule, at_work
        self._watchers = dict[Appender, _Watcher]()
        """Of the silent runs."""
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Follow the logs of silent runs, until cancelled."""
        while True:
            before = self._loop.time()
            await tick(_TICK)
            now = self._loop.time()
            if now - before > _STALL:
                _log.warning(
                    "the event loop did not run for %.1f s; checking the logs of its runs",
                    now - before,
                )
                self._rule.check_all()
            try:
                await self._tick(now, stalled=now - before > _STALL)
            except (NatsError, OSError) as error:
                _log.info("watching logs: %s", error)

    async def _tick(self, now: float, *, stalled: bool) -> None:
        silent = {one for one in self._at_work() if stalled or now - one.last_append > SILENCE}
        for appender in silent - self._watchers.keys():
            self._watchers[appender] = await _Watcher.of(self._bus, self._rule, appender)
        for appender in self._watchers.keys() - silent:
            await self._watchers.pop(appender).stop()


class _Watcher:
    """Follower of one run's log while its agent is silent."""

    def __init__(self, rule: TailRule, appender: Appender, live: Subscription) -> None:
        self.key = appender.key
        self.last_seen = None  # A message of another writer has the appender look at once.
        self._rule, self._appender, self._live = rule, appender, live

    @classmethod
    async def of(cls, bus: Bus, rule: TailRule, appender: Appender) -> Self:
        subject = bus.subjects.live(appender.key)
        live = await bus.connection.listen(subject, partial(_look_at_live, appender))
        watcher = cls(rule, appender, live)
        rule.watch(watcher, first=0)
        return watcher

    async def stop(self) -> None:
        self._rule.forget(self)
        await self._live.unsubscribe()

    def tail_is(self, sequence: int) -> None:
        if sequence != self._appender.sequence and not self._appender.appending:
            self._appender.look()


def _look_at_live(appender: Appender, msg: Msg) -> None:
    try:
        stamp = parse_stamp(msg.subject, msg.headers)
    except UndecodableMessage:
        return
    if stamp.writer != appender.authorship.writer:
        appender.look()
