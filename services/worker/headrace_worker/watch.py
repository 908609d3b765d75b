"""Detection that another writer has taken over a log while its agent is silent.

An agent that emits output finds out by its next append. For a silent agent, the watch follows the
log's live subject and applies the tail rule, from the first second of silence on. Busy and short
runs therefore cost nothing here.
"""

import asyncio
import logging

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.model.entry import parse_stamp
from headrace.model.errors import UndecodableMessage
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

    def __init__(self, bus: Bus, rule: TailRule) -> None:
        """Start without runs."""
        self._bus, self._rule = bus, rule
        self._watchers: dict[Appender, _Watcher | None] = {}
        """None: the run has not been silent yet."""
        self._loop = asyncio.get_running_loop()
        self._leaving: set[asyncio.Task[None]] = set()

    def add(self, appender: Appender) -> None:
        """Watch the log that `appender` writes."""
        self._watchers[appender] = None

    def remove(self, appender: Appender) -> None:
        """Stop watching its log."""
        watcher = self._watchers.pop(appender, None)
        if watcher is not None and watcher.engaged:
            task = self._loop.create_task(watcher.disengage())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def run(self) -> None:
        """Follow the logs of silent runs, until cancelled."""
        while True:
            before = self._loop.time()
            await asyncio.sleep(_TICK)
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
        for appender, watcher in list(self._watchers.items()):
            is_silent = stalled or now - appender.last_append > SILENCE
            if watcher is not None and watcher.engaged == is_silent:
                continue  # As nearly always.
            if watcher is None:
                if not is_silent or appender not in self._watchers:
                    continue
                watcher = _Watcher(self._bus, self._rule, appender)  # noqa: PLW2901
                self._watchers[appender] = watcher
            if is_silent and not watcher.engaged:
                await watcher.engage()
            elif watcher.engaged and not is_silent:
                await watcher.disengage()
            if appender not in self._watchers:
                # The run ended during the subscribe call.
                await watcher.disengage()


class _Watcher:
    """Follower of one run's log while its agent is silent."""

    def __init__(self, bus: Bus, rule: TailRule, appender: Appender) -> None:
        self.key = appender.key
        self.last_seen = None  # A message of another writer has the appender look at once.
        self._bus, self._rule, self._appender = bus, rule, appender
        self._subscription: Subscription | None = None

    @property
    def engaged(self) -> bool:
        return self._subscription is not None

    async def engage(self) -> None:
        subject = self._bus.subjects.live(self.key)
        self._subscription = await self._bus.connection.listen(subject, self._on_live)
        self._rule.watch(self, first=0)

    async def disengage(self) -> None:
        self._rule.forget(self)
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._bus.connection.is_closed:
            await subscription.unsubscribe()

    def tail_is(self, sequence: int) -> None:
        if sequence != self._appender.sequence and not self._appender.appending:
            self._appender.look()

    def _on_live(self, msg: Msg) -> None:
        try:
            stamp = parse_stamp(msg.subject, msg.headers)
        except UndecodableMessage:
            return
        if stamp.writer != self._appender.authorship.writer:
            self._appender.look()
