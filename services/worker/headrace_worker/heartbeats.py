"""Heartbeats of held runs, and answers to holder queries, on the heartbeat thread.

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
import math
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Protocol

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.jetstream.consumers import IN_PROGRESS, nak
from headrace.model.messages import Control, HolderReply, Holds, HoldsQuery
from headrace.sdk.runtime import Interrupt
from headrace_worker.blocked_loop import what_blocks
from headrace_worker.heartbeat_thread import HeartbeatThread
from headrace_worker.inputs import InputRefusal, Inputs
from headrace_worker.timing import Timing

_log = logging.getLogger(__name__)

HEARTBEAT = 1.2
"""Seconds between heartbeats of a held run: within ack_wait, two may be late."""

BLOCKED = 2.0
"""Seconds after which an unresponsive worker loop is logged."""

_TICK = 0.05

_IDLE = 1.0
"""Seconds without anything that is urgent after which ticks end, and seconds between two looks from
then on."""

_EXTENDED = 0.5
"""The same while there are holds with long leases."""

_FLUSH = 1


class Holder(Protocol):
    """The attempt that holds a task, as it answers requests."""

    @property
    def control(self) -> str:
        """The task's control subject, on which requests to the holder come."""

    def holder_reply(self) -> HolderReply:
        """Return who it is; called on the heartbeat thread."""

    def interrupt(self, why: Interrupt) -> None:
        """Stop the agent; called on the worker's loop."""

    @property
    def refuses_inputs(self) -> bool:
        """Whether the agent accepts no message now; read on the heartbeat thread."""

    @property
    def inputs(self) -> Inputs:
        """Takes submitted messages; used on the worker's loop."""


class Hold:
    """One pulled run, from its arrival until it is acknowledged, given back or lost."""

    __slots__ = ("due", "holder", "is_released", "number", "reply", "subscription")

    def __init__(self, reply: str) -> None:
        """Hold the run whose acknowledgement subject is `reply`."""
        self.reply = reply
        self.due = time.monotonic() + _TICK
        """When the next heartbeat is due."""
        self.holder: Holder | None = None
        """None until this worker holds the task."""
        self.is_released = False
        self.number = 0
        """In the list of holds; 0: not listed yet."""
        self.subscription: Subscription | None = None


_MOST = 2000
"""Maximum number of holds in one answer, which then fits into a message; others follow."""

_REMEMBERED = 8192
"""Ends of holds that are remembered for watchers; who missed more gets the whole list."""

_CUT_SHORT = 16
"""Answers without the newest holds that are remembered, likewise: several watchers may ask."""


class HoldList:
    """The holds that have lasted for some time, each under the number of the change that added it.

    Times are monotonic seconds.
    """

    def __init__(self, watched: float) -> None:
        """Start empty; without a request for `watched` seconds, there is no watcher."""
        self._watched = watched
        self._number = 0
        self._held: dict[int, tuple[str, str]] = {}
        """The reply subject of each run request, and the task's control subject, if it is known."""
        self._ended: deque[tuple[int, int]] = deque()
        """Numbers of each end and of its hold."""
        self._forgotten = 0
        """Who has only an answer with a lower number gets the whole list."""
        self._cut_short: dict[int, int] = {}
        """The last hold that an answer listed, by the answer's number, if there were more."""
        self._known, self._queried_at = 0, -math.inf

    def add(self, reply: str, task: str = "") -> int:
        """Add the hold on the run with that acknowledgement subject; return its number.

        `task`: the task's control subject, once this worker holds the task.
        """
        self._number += 1
        self._held[self._number] = reply, task
        return self._number

    def claimed(self, number: int, task: str) -> int:
        """Add a listed hold again if its `task` was not known; return its number from now on."""
        reply, known = self._held.get(number, ("", task))
        if known:
            return number
        self.remove(number)
        return self.add(reply, task)

    def remove(self, number: int) -> None:
        """Remove the hold with that number, if it is listed."""
        if self._held.pop(number, None) is None:
            return
        self._number += 1
        self._ended.append((self._number, number))
        if len(self._ended) > _REMEMBERED:
            end, _ = self._ended.popleft()
            self._forgotten = max(self._forgotten, end)

    def is_watched(self, now: float) -> bool:
        """Return whether a watcher has asked lately."""
        return now - self._queried_at < self._watched

    def is_known(self, number: int, now: float) -> bool:
        """Return whether a watcher would give the hold with that number back; 0: not listed."""
        return 0 < number <= self._known and self.is_watched(now)

    def changes(self, after: int, now: float) -> Holds:
        """Return what has changed since the answer with number `after`; 0: everything."""
        is_whole = after < max(self._forgotten, 1) or after > self._number
        self._known = known = 0 if is_whole else self._cut_short.get(after, after)
        self._queried_at = now
        newest = list[int]()
        for number in reversed(self._held):
            if number <= known:
                break
            newest.append(number)
        listed = newest[: -_MOST - 1 : -1]
        released = list[int]()
        for change, number in () if is_whole else reversed(self._ended):
            if change <= after:
                break
            if number <= known:
                released.append(number)
        return Holds(
            number=self._number if len(listed) == len(newest) else self._cut(listed[-1]),
            taken={number: self._held[number][0] for number in listed},
            tasks={number: task for number in listed if (task := self._held[number][1])},
            released=released,
            whole=is_whole,
        )

    def _cut(self, last: int) -> int:
        """Return the number of an answer of which `last` is the last hold, but not the newest.

        The number is this answer's only: it includes all ends until now. With that of the hold, the
        next question would also need each end since that hold, and start over without it.
        """
        answer = self._number + 1
        self._cut_short[answer] = last
        if len(self._cut_short) > _CUT_SHORT:
            oldest = next(iter(self._cut_short))
            del self._cut_short[oldest]
            self._forgotten = max(self._forgotten, oldest + 1)
        self._number += 2  # An answer with all holds has another number.
        return answer


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
        self._workers_loop = asyncio.get_running_loop()
        self._workers_thread = threading.get_ident()
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
        self._health_probe = self._held_at = time.monotonic()
        self._is_idle = False
        """Whether the thread waits for `_held` instead of the next tick."""
        self._held = asyncio.Event()

    async def start(self, questions: str) -> None:
        """Start the heartbeats, and answer questions for the holds on the subject `questions`.

        Raises:
            BusUnavailable: the connection is closed.
        """
        self.health_probe()  # To connect may have taken longer than a loop may be silent.
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

    def health_probe(self) -> None:
        """Record that the worker's loop is running."""
        self._health_probe = time.monotonic()

    async def _keep(self) -> None:
        blocked = False
        while True:
            try:
                await self._look_after()
            except (NatsError, OSError) as error:
                _log.debug("leases: %s", error)
            except Exception:  # noqa: BLE001  # without this loop every lease is lost
                _log.exception("leases")
            blocked = self._watch_health(blocked=blocked)
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
                await asyncio.wait_for(self._held.wait(), _EXTENDED if self._extended else _IDLE)
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
                await self._answer(hold, holder)
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

    async def _answer(self, hold: Hold, holder: Holder) -> None:
        receive = partial(self._receive, hold, holder)
        subscription = await self._heartbeat_thread.bus.connection.listen(holder.control, receive)
        if hold.is_released:
            await subscription.unsubscribe()
        else:
            hold.subscription = subscription

    def _receive(self, hold: Hold, holder: Holder, msg: Msg) -> None:
        # In the background: the next request may ask who the holder is.
        self._heartbeat_thread.spawn(self._respond(hold, msg, holder))

    async def _respond(self, hold: Hold, msg: Msg, holder: Holder) -> None:
        if hold.is_released:
            return
        request = Control.decode_or_ignore(msg, "question to a task's holder")
        if request is None:
            return
        if request.ask == "input":
            await self._take_in(msg, request, holder)
            return
        if request.ask == "cancel":
            self._workers_loop.call_soon_threadsafe(holder.interrupt, Interrupt.CANCELED)
        answer = holder.holder_reply().encode()
        await self._heartbeat_thread.bus.connection.publish(msg.reply, answer)

    async def _take_in(self, msg: Msg, request: Control, holder: Holder) -> None:
        taken: int | InputRefusal = InputRefusal("blocked")
        if holder.refuses_inputs:
            taken = InputRefusal("policy")
        elif self._silence < self._timing.take_in:
            work = asyncio.run_coroutine_threadsafe(_taken_in(holder, request), self._workers_loop)
            # Not cancelled: if the message is queued twice, its input id in the log shows it.
            waiting = asyncio.shield(asyncio.wrap_future(work))
            with suppress(TimeoutError):
                taken = await asyncio.wait_for(waiting, self._timing.take_in)
        more: dict[str, object] = {"generation": taken}
        if isinstance(taken, InputRefusal):
            refused = {"refused": taken.reason, "generation": taken.generation}
            more = {"accepted": False, **refused}
        answer = holder.holder_reply().model_copy(update=more)
        await self._heartbeat_thread.bus.connection.publish(msg.reply, answer.encode())

    async def _stop_answering(self, hold: Hold) -> None:
        await self._forget(hold)
        # The worker publishes next on another connection: that must not overtake this.
        await self._heartbeat_thread.bus.connection.flush(_FLUSH)

    async def _forget(self, hold: Hold) -> None:
        self._listed.remove(hold.number)
        subscription, hold.subscription = hold.subscription, None
        if subscription is not None:
            await subscription.unsubscribe()

    @property
    def _silence(self) -> float:
        """Seconds since the worker's loop last ran."""
        return time.monotonic() - self._health_probe

    def _watch_health(self, *, blocked: bool) -> bool:
        silence = self._silence
        if silence < BLOCKED:
            if blocked:
                _log.warning("the event loop is running again")
            return False
        if not blocked:
            agent, where = what_blocks(self._workers_thread)
            if agent:
                _log.warning("%s has blocked the event loop for %.1f s%s", agent, silence, where)
            else:
                _log.warning("the event loop has not run for %.1f s", silence)
        return True


async def _taken_in(holder: Holder, request: Control) -> int | InputRefusal:
    return await holder.inputs.take_in(request)


def _task_of(hold: Hold) -> str:
    """Return the control subject of its task; empty until this worker has claimed the run."""
    return "" if (holder := hold.holder) is None else holder.control
