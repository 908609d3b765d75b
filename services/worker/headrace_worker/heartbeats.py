"""Heartbeats of held runs, on the heartbeat thread.

An agent that blocks the worker's loop (`time.sleep`, a long computation) therefore loses neither
its leases nor its directory entry. Code that holds the interpreter lock for seconds, inside C,
still does.

The worker's loop only adds and removes holds. A run that is held only briefly is never processed
here, so a short run costs nothing. A long run costs its heartbeats: each tick processes the holds
that are due, not all of them. If no hold has come, ended or needed a short lease for a second,
there are one or two ticks a second, in which many long leases are renewed together; the next such
hold ends that.

Task state asks each worker twice a second which runs it holds, and gives those of a dead worker
back to the queue. Such runs have longer leases, and so fewer heartbeats. Once nobody has asked for
a while, all leases are short again.
"""

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.jetstream.consumers import IN_PROGRESS, nak
from headrace.model.messages import HoldsQuery
from headrace.ticks import until_tick
from headrace_worker.blocked_loop import LoopHealth
from headrace_worker.heartbeat_thread import HeartbeatThread
from headrace_worker.hold_list import HoldList
from headrace_worker.holder_requests import Holder, HolderRequests
from headrace_worker.timing import Timing

_log = logging.getLogger(__name__)

HEARTBEAT = 1.2
"""Seconds between heartbeats of a held run: within ack_wait, two may be late."""

_TICK = 0.05

_IDLE = 1.0
"""Seconds without anything that is urgent after which ticks end, and seconds between two looks from
then on."""

_EXTENDED = 0.5
"""The same while there are holds with long leases."""

_FLUSH = 1


class Hold:
    """One pulled run, from its arrival until it is acknowledged, given back or lost."""

    __slots__ = ("due", "holder", "is_released", "number", "reply", "subscription")

    def __init__(self, reply: str) -> None:
        """Hold the run whose acknowledgement subject is `reply`."""
        self.reply = reply
        self.due = time.monotonic() + _TICK
        """When the next heartbeat is due."""
        self.holder: Holder | None = None
        """None until this worker holds the task, and once the hold is released."""
        self.is_released = False
        self.number = 0
        """In the list of holds; 0: not listed yet."""
        self.subscription: Subscription | None = None


class WorkerLeases:
    """All holds of a worker.

    Both threads use the deques `_taken` and `_released`, whose methods are atomic; everything else
    belongs to one of them.
    """

    def __init__(
        self, heartbeat_thread: HeartbeatThread, timing: Timing, tick: float = _TICK
    ) -> None:
        """Keep holds on `heartbeat_thread`; call this on the worker's loop.

        The thread looks after them every `tick` seconds.
        """
        self._timing, self._tick = timing, tick
        self._heartbeat_thread = heartbeat_thread
        self.health = LoopHealth()
        self._requests = HolderRequests(heartbeat_thread, self.health, timing.accept_input)
        self._taken: deque[Hold] = deque()
        """New holds, in the order of their first heartbeats."""
        self._beating: deque[Hold] = deque()
        """Holds with a heartbeat and a short lease, in the order of their next heartbeats."""
        self._extended: deque[Hold] = deque()
        """Holds with a long lease, likewise."""
        self._listed = HoldList(timing.watched)
        self._claiming: set[Hold] = set()
        """Holds with a heartbeat that this worker may not have claimed yet."""
        self._released: deque[Hold] = deque()
        """Released holds whose answers may have to be ended."""
        self._held_at = time.monotonic()
        self._is_idle = False
        """Whether the thread waits for `_held` instead of the next tick."""
        self._held = asyncio.Event()

    async def start(self, questions: str) -> None:
        """Start the heartbeats, and answer questions for the holds on the subject `questions`.

        Raises:
            BusUnavailable: the connection is closed.
        """
        self.health.note_turn()  # To connect may have taken longer than a loop may be silent.
        self._heartbeat_thread.spawn(self._keep())
        await self._heartbeat_thread.call(
            self._heartbeat_thread.bus.listen(questions, self._on_question)
        )

    def add(self, reply: str) -> Hold:
        """Add a hold on the run whose acknowledgement subject is `reply`."""
        hold = Hold(reply)
        self._taken.append(hold)
        self._end_idleness()
        return hold

    def release(self, hold: Hold) -> None:
        """Remove the hold: no more heartbeats or answers."""
        hold.is_released = True
        hold.holder = None  # The thread may keep the hold until its heartbeat would be due.
        self._released.append(hold)
        self._end_idleness()

    def _end_idleness(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._heartbeat_thread.call_soon(self._held.set)

    async def release_and_wait(self, hold: Hold) -> None:
        """Release the hold and wait until the thread has stopped answering for it."""
        self.release(hold)
        await self._heartbeat_thread.call(self._stop_answering(hold))

    async def _keep(self) -> None:
        while True:
            try:
                await self._look_after()
            except (NatsError, OSError) as error:
                _log.debug("leases: %s", error)
            except Exception:  # noqa: BLE001  # without this loop every lease is lost
                _log.exception("leases")
            self.health.watch()
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next tick, or for a hold if none has been urgent for `_IDLE` seconds."""
        now = time.monotonic()
        if self._taken or self._beating or self._claiming or self._released:
            self._held_at = now
        if now - self._held_at < _IDLE:
            await asyncio.sleep(self._tick)
            return
        self._held.clear()
        self._is_idle = True
        # A hold is added before the flag is read, so one of the threads notices the other.
        if not self._taken and not self._released:
            with suppress(TimeoutError):
                longest = until_tick(_EXTENDED if self._extended else _IDLE)
                await asyncio.wait_for(self._held.wait(), longest)
        self._is_idle = False

    async def _look_after(self) -> None:
        now = time.monotonic()
        while self._released:
            await self._forget(self._released.popleft())
        if not self._listed.is_watched(now):
            self._shorten(now)
        for holds in (self._taken, self._beating, self._extended):
            while holds and holds[0].due <= now:
                hold = holds.popleft()
                if not hold.is_released:
                    if holds is self._taken:
                        self._claiming.add(hold)
                        hold.number = self._listed.add(hold.reply, _task_of(hold))
                    await self._beat(hold, now)
        for hold in list(self._claiming):
            if hold.is_released:
                self._claiming.discard(hold)
            elif (holder := hold.holder) is not None:
                await self._accept_requests(hold, holder)
                hold.number = self._listed.claimed(hold.number, holder.control)
                self._claiming.discard(hold)

    def _shorten(self, now: float) -> None:
        """Have the long leases of all holds replaced by short ones."""
        for hold in self._extended:
            hold.due = now

    async def _beat(self, hold: Hold, now: float) -> None:
        # Only runs that this worker has claimed: others it may give back at any moment, and a
        # heartbeat on this connection could postpone that.
        is_extended = hold.holder is not None and self._listed.is_known(hold.number, now)
        # First, so that a heartbeat that can't be sent is not the last one.
        hold.due = now + (self._timing.lease_interval if is_extended else HEARTBEAT)
        (self._extended if is_extended else self._beating).append(hold)
        lease = nak(self._timing.lease) if is_extended else IN_PROGRESS
        await self._heartbeat_thread.bus.connection.publish(hold.reply, lease)

    def _on_question(self, msg: Msg) -> None:
        query = HoldsQuery.decode_or_ignore(msg, "question about held runs")
        if query is None:
            return
        answer = self._listed.changes(query.after, time.monotonic())
        self._heartbeat_thread.spawn(self._heartbeat_thread.bus.publish(msg.reply, answer.encode()))

    async def _accept_requests(self, hold: Hold, holder: Holder) -> None:
        subscription = await self._requests.listen(holder.control, hold)
        if hold.is_released:
            await subscription.unsubscribe()
        else:
            hold.subscription = subscription

    async def _stop_answering(self, hold: Hold) -> None:
        await self._forget(hold)
        # The worker publishes next on another connection: that must not overtake this.
        await self._heartbeat_thread.bus.connection.flush(_FLUSH)

    async def _forget(self, hold: Hold) -> None:
        if hold.number:
            self._listed.remove(hold.number)
        subscription, hold.subscription = hold.subscription, None
        if subscription is not None:
            await subscription.unsubscribe()


def _task_of(hold: Hold) -> str:
    """Return the control subject of its task; empty until this worker has claimed the run."""
    return "" if (holder := hold.holder) is None else holder.control
