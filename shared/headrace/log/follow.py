"""Following one log: each entry once and in order, although live messages may be missed."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from nats.aio.msg import Msg

from headrace.jetstream.client import Listening, ReceivedMessage
from headrace.jetstream.connection import Bus
from headrace.log.read import (
    Continuity,
    LogMessage,
    check_reaches,
    from_message,
    replay_stored,
)
from headrace.log.tail_rule import FIRST_CHECK, TailRule
from headrace.log.token_frame import UPDATE, TokenFrame
from headrace.model.entry import Entry
from headrace.model.errors import (
    BusUnavailable,
    LogLost,
    LogTooNew,
    TaskForgotten,
    UndecodableMessage,
)
from headrace.model.task import TaskKey

LIMIT = 256 * 1024
"""Bytes of events that are kept. Events beyond that are read from the log."""


class ReorderBuffer:
    """The newest live messages, without a gap, until reading has reached them.

    Without it, a reader whose reads take longer than the pauses between messages would read for
    ever: after each read, newer messages would again need a read.
    """

    __slots__ = ("_kept", "_limit", "_size")

    def __init__(self, limit: int = LIMIT) -> None:
        """Create an empty buffer of about `limit` bytes at most."""
        self._limit = limit
        self._kept: deque[LogMessage] | None = None
        """None while nothing is kept, as mostly: an empty deque takes 760 bytes."""
        self._size = 0

    @property
    def first(self) -> LogMessage | None:
        """The oldest kept message. None: the buffer is empty."""
        return self._kept[0] if self._kept else None

    def keep(self, live: LogMessage) -> int:
        """Keep `live`. Return the stream sequence up to which the log must still be read."""
        size = _size(live)
        if self._kept and live.previous != self._kept[-1].sequence:
            self._clear()
        if self._size + size > self._limit:
            self._clear()
        if self._kept is None:
            self._kept = deque()
        self._kept.append(live)
        self._size += size
        return self._kept[0].previous

    def following(self, sequence: int) -> Iterator[LogMessage]:
        """Remove and yield the messages that directly follow stream sequence `sequence`."""
        while self._kept and self._kept[0].sequence <= sequence:
            self._pop(self._kept)
        while self._kept and self._kept[0].previous == sequence:
            live = self._pop(self._kept)
            sequence = live.sequence
            yield live

    def _pop(self, kept: deque[LogMessage]) -> LogMessage:
        live = kept.popleft()
        self._size -= _size(live)
        if not kept:
            self._clear()
        return live

    def _clear(self) -> None:
        self._kept = None
        self._size = 0


def _size(live: LogMessage) -> int:
    return 0 if live.entry is None else sum(map(len, live.entry.lines))


_log = logging.getLogger(__name__)

_RETRY_PAUSE = 0.5


class Follower:
    """Delivers every entry of a log after a given sequence, exactly once and in order.

    Live messages are delivered as they arrive. After a gap, or if the leader reports a later tail,
    the log is read until the buffered live messages follow directly.
    """

    __slots__ = (
        "_bus",
        "_continuity",
        "_deliver",
        "_doubted",
        "_event",
        "_live",
        "_loop",
        "_lost",
        "_over",
        "_reorder_buffer",
        "_repair",
        "_rule",
        "_subscription",
        "_tokens",
        "_wanted",
        "key",
        "last_seen",
        "sequence",
    )

    def __init__(
        self,
        bus: Bus,
        rule: TailRule,
        key: TaskKey,
        deliver: Callable[[Entry], None],
        lost: Callable[[LogLost | LogTooNew], None],
    ) -> None:
        """Prepare to call `deliver` for each entry, and `lost` once and last if the log is lost.

        A log that continues in a later version is lost to this process.
        """
        self.key = key
        self.last_seen = 0.0
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
        self._subscription: Listening | None = None
        self._tokens: TokenFrame | None = None
        """Of the last message, if that was a token and was delivered as it arrived."""
        self._loop = asyncio.get_running_loop()

    async def subscribe(self) -> None:
        """Subscribe to the live subject. Nothing is delivered before `begin`.

        Raises:
            BusUnavailable: The connection is closed.
        """
        self._subscription = await self._bus.listen(self._live, self._on_live)

    def begin(self, after: int, first_check: float = FIRST_CHECK) -> None:
        """Deliver entries after stream sequence `after`; 0: from the start.

        Call it after `subscribe`. `after` is where a read made since then ended, or 0 for a log
        that the caller is about to start. Live messages that arrived in between are not lost.
        """
        self.sequence = after
        self._continuity = Continuity(self.key, after)
        self._rule.watch(self, first_check)
        self._repair_if_needed()

    def rest(self, silence: float) -> None:
        """Forget what is only for speed, 1 KB, if no message has come for `silence` seconds."""
        if self._loop.time() - self.last_seen >= silence:
            self._tokens = None

    def stop(self) -> None:
        """Stop delivering and release all resources."""
        self._over, self._tokens = True, None
        self._rule.forget(self)
        if self._repair is not None:
            self._repair.cancel()
        if self._subscription is not None:
            self._subscription.end()

    def tail_is(self, sequence: int) -> None:
        """Receive the leader's last sequence of this log; 0: the log is empty."""
        if sequence > self.sequence:
            _log.debug("%s: live messages up to sequence %d were missed", self.key.task, sequence)
            self._wanted = max(self._wanted, sequence)
            self._repair_if_needed()
        elif sequence < self.sequence:
            # The log is gone, or more of it arrived while the answer was on its way.
            self._doubted = True
            self._repair_if_needed()

    def _on_live(self, msg: Msg) -> None:
        if msg.reply or msg.subject != self._live:
            # Messages that a consumer delivers, if its deliver subject or its requests point here.
            return
        if (tokens := self._tokens) is not None and isinstance(msg, ReceivedMessage):
            number = self._continuity.next or 0
            entry = tokens.next_entry(msg.block, msg.data, self.sequence, number)
            if entry is not None:
                self.last_seen = self._loop.time()
                self.sequence, self._continuity.next = entry.sequence, number + 1
                self._deliver(entry)
                return
        self._read(msg)

    def _read(self, msg: Msg) -> None:
        """Read a live message that is no token like the one before it."""
        try:
            stored = from_message(msg, self._event)
        except UndecodableMessage:
            return
        self.last_seen, self._tokens = self._loop.time(), None
        if self._repair is None and stored.previous == self.sequence >= 0:
            entry: Entry | None = None
            try:
                entry = self._hand_on(stored)
            except (LogLost, LogTooNew) as loss:
                self._give_up(loss)
            if entry is not None and len(entry.lines) == 1 and msg.data.startswith(UPDATE):
                self._learn(msg, entry)
        elif stored.sequence > self.sequence:
            self._wanted = max(self._wanted, self._reorder_buffer.keep(stored))
            self._repair_if_needed()

    def _learn(self, msg: Msg, entry: Entry) -> None:
        """Remember what the next message has in common with this one, if both are tokens.

        `entry` was delivered: what stands behind the end of a task never is.
        """
        if isinstance(msg, ReceivedMessage) and not self._over:
            self._tokens = TokenFrame.of(msg.block, entry)

    def _hand_on(self, stored: LogMessage) -> Entry | None:
        """Deliver the next message's entry and return it; None: nothing was delivered."""
        if self._over:
            return None
        if stored.is_tombstone:
            raise TaskForgotten(f"the log of {self.key.task} has been deleted")
        entry = self._continuity.entry_in(stored)
        self.sequence = stored.sequence
        if entry is not None:
            self._deliver(entry)
        return entry

    @property
    def _needs_repair(self) -> bool:
        is_behind = self._wanted > self.sequence or self._reorder_buffer.first is not None
        return self.sequence >= 0 and (self._doubted or is_behind)

    def _repair_if_needed(self) -> None:
        if self._needs_repair and self._repair is None and not self._over:
            self._tokens = None
            self._repair = self._loop.create_task(self._repair_view())

    async def _repair_view(self) -> None:
        try:
            while self._needs_repair:
                await self._repair_once()
                self._go_on_live()
        except (LogLost, LogTooNew) as loss:
            self._give_up(loss)
        finally:
            self._repair = None

    def _go_on_live(self) -> None:
        for stored in self._reorder_buffer.following(self.sequence):
            self._hand_on(stored)
        ahead = self._reorder_buffer.first
        if ahead is not None and ahead.previous <= self.sequence:
            # The message before it is gone. A read shows what happened.
            self._wanted = max(self._wanted, ahead.sequence)

    async def _repair_once(self) -> None:
        try:
            if self._doubted:
                await check_reaches(self._bus, self.key, self.sequence)
                self._doubted = False
            async for batch in replay_stored(self._bus, self.key, self.sequence, self._wanted):
                for stored in batch:
                    self._hand_on(stored)
        except BusUnavailable as error:
            _log.info("reading the log of %s: %s", self.key.task, error)
            await asyncio.sleep(_RETRY_PAUSE)

    def _give_up(self, loss: LogLost | LogTooNew) -> None:
        if not self._over:
            self._over, self._tokens = True, None
            self._rule.forget(self)
            self._lost(loss)
