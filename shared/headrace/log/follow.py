"""Following one log: each entry once, in order, from a point on, although live is only a hint."""

import asyncio
import logging
from collections.abc import Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.jetstream.connection import Bus
from headrace.log.read import Continuity, check_reaches, replay_stored
from headrace.log.reorder_buffer import ReorderBuffer
from headrace.log.stored import Stored, from_message
from headrace.log.verify_tail import FIRST_CHECK, TailRule
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, LogLost, TaskForgotten, UndecodableMessage
from headrace.model.task import TaskKey

_log = logging.getLogger(__name__)

_AFTER_TROUBLE = 0.5


class Follower:
    """Hands on every entry of a log after a given sequence, each exactly once and in order.

    Live messages are handed on as they come. A gap, or a tail that the leader reports beyond what
    came, is repaired by reading the log up to where what arrives meanwhile goes on.
    """

    def __init__(
        self,
        bus: Bus,
        rule: TailRule,
        key: TaskKey,
        deliver: Callable[[Entry], None],
        lost: Callable[[LogLost], None],
    ) -> None:
        """Prepare to call `deliver` per entry; `lost`, once and last, if the log goes away."""
        self.key = key
        self.heard = 0.0
        self.sequence = -1
        self._bus, self._rule = bus, rule
        self._live, self._event = bus.subjects.live(key), bus.subjects.event(key)
        self._deliver, self._lost = deliver, lost
        self._continuity = Continuity(key, 0)
        self._reorder_buffer = ReorderBuffer()
        self._wanted = 0
        self._doubted = False
        self._over = False
        self._repair: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        self._loop = asyncio.get_running_loop()

    async def subscribe(self) -> None:
        """Subscribe to the live subject; nothing is delivered before `begin`.

        Raises:
            BusUnavailable: the connection is closed.
        """
        self._subscription = await self._bus.listen(self._live, self._on_live)

    def begin(self, after: int, first_check: float = FIRST_CHECK) -> None:
        """Deliver what lies behind stream sequence `after`; 0: from the start.

        Call it after `subscribe`: `after` is where a read made since then ended, or 0 for a log
        that the caller is about to start. Live messages that came in between are not lost.
        """
        self.sequence = after
        self._continuity = Continuity(self.key, after)
        self._rule.watch(self, first_check)
        self._repair_if_needed()

    async def stop(self) -> None:
        """Deliver nothing more and give everything back."""
        self._over = True
        self._rule.forget(self)
        if self._repair is not None:
            self._repair.cancel()
        if self._subscription is not None:
            await self._bus.unsubscribe(self._subscription)

    def tail_is(self, sequence: int) -> None:
        """Be told the leader's last sequence of this log; 0: it is empty."""
        if sequence > self.sequence:
            _log.debug("%s: live missed up to sequence %d", self.key.task, sequence)
            self._wanted = max(self._wanted, sequence)
            self._repair_if_needed()
        elif sequence < self.sequence:
            # The log is gone, or more of it came in while the answer was on its way.
            self._doubted = True
            self._repair_if_needed()

    def _on_live(self, msg: Msg) -> None:
        if msg.reply or msg.subject != self._live:
            # What a consumer hands out, whose deliver subject or whose requests led here.
            return
        try:
            stored = from_message(msg, self._event)
        except UndecodableMessage:
            return
        self.heard = self._loop.time()
        if self._repair is None and stored.previous == self.sequence >= 0:
            self._take(stored)
        elif stored.sequence > self.sequence:
            self._wanted = max(self._wanted, self._reorder_buffer.keep(stored))
            self._repair_if_needed()

    def _take(self, live: Stored) -> None:
        try:
            self._hand_on(live)
        except LogLost as loss:
            self._give_up(loss)

    def _hand_on(self, stored: Stored) -> None:
        if self._over:
            return
        if stored.is_tombstone:
            raise TaskForgotten(f"the log of {self.key.task} has been deleted")
        if stored.entry is not None:
            self._continuity.check(stored.entry)
        self.sequence = stored.sequence
        if stored.entry is not None:
            self._deliver(stored.entry)

    @property
    def _needs_repair(self) -> bool:
        is_behind = self._wanted > self.sequence or self._reorder_buffer.first is not None
        return self.sequence >= 0 and (self._doubted or is_behind)

    def _repair_if_needed(self) -> None:
        if self._needs_repair and self._repair is None and not self._over:
            self._repair = self._loop.create_task(self._repair_view())

    async def _repair_view(self) -> None:
        try:
            while self._needs_repair:
                await self._repair_once()
                self._go_on_live()
        except LogLost as loss:
            self._give_up(loss)
        finally:
            self._repair = None

    def _go_on_live(self) -> None:
        for stored in self._reorder_buffer.following(self.sequence):
            self._hand_on(stored)
        ahead = self._reorder_buffer.first
        if ahead is not None and ahead.previous <= self.sequence:
            # What it followed on is not there any more: reading tells what became of it.
            self._wanted = max(self._wanted, ahead.sequence)

    async def _repair_once(self) -> None:
        try:
            if self._doubted:
                await check_reaches(self._bus, self.key, self.sequence)
                self._doubted = False
            async for batch in replay_stored(self._bus, self.key, self.sequence, self._wanted):
                for stored in batch:
                    self._hand_on(stored)
        except BusUnavailable as trouble:
            _log.info("reading the log of %s: %s", self.key.task, trouble)
            await asyncio.sleep(_AFTER_TROUBLE)

    def _give_up(self, loss: LogLost) -> None:
        if not self._over:
            self._over = True
            self._rule.forget(self)
            self._lost(loss)
