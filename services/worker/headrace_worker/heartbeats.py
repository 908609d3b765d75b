"""Keeping held runs: heartbeats to the work queue, and answers to whoever asks for the holder.

Both happen on the heartbeat thread. The worker's loop only adds and removes holds; what is held
for less than a moment is never touched here, so that a short run costs nothing.

A thread with a loop and a connection of its own, for what must never wait for an agent.
An agent that blocks the worker's loop (`time.sleep`, a long computation) must lose neither its
leases nor its place in the directory. Python code that keeps the interpreter to itself for seconds,
inside C, still does.
"""

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import uvloop
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import IN_PROGRESS
from headrace.model.errors import BusUnavailable, UndecodableMessage
from headrace.model.messages import Control, Holding
from headrace.settings import BusSettings
from headrace_worker.inputs import InputRefusal

_JOIN = 2.0


class HeartbeatThread:
    """The thread; `bus` is for code that runs on its loop, no other."""

    def __init__(self, settings: BusSettings, name: str) -> None:
        """Prepare a connection called `name`; `start` does the work."""
        self.bus = Bus(settings)
        self._name = name
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._has_stopped = False

    async def start(self) -> None:
        """Start the thread and return when its connection stands.

        Raises:
            BusUnavailable: it did not within the start-up time-out.
        """
        self._thread.start()
        await self.call(self.bus.connect(self._name))

    async def stop(self) -> None:
        """Hang up and end the thread."""
        self._has_stopped = True
        if not self._thread.is_alive():
            return
        await self._called(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _JOIN)

    async def call[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread's loop and return its result.

        Raises:
            BusUnavailable: the thread has been told to stop; a run may outlive it.
        """
        if self._has_stopped:
            work.close()
            raise BusUnavailable("the worker has stopped")
        return await self._called(work)

    async def _called[T](self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` on the thread's loop, as long as that goes on; nobody waits for it."""
        if self._has_stopped:
            work.close()
            return
        asyncio.run_coroutine_threadsafe(work, self._loop).add_done_callback(_complain)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.bus.close()


def _complain(done: "concurrent.futures.Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a task of the heartbeat thread failed", exc_info=error)


_log = logging.getLogger(__name__)

HEARTBEAT = 1.2
"""Seconds between heartbeats of a held run: ack_wait leaves room for two to be late."""

BLOCKED = 2.0
"""Seconds without a sign of the worker's loop after which that is worth a line in the log."""

TAKE_IN = 1.0
"""Seconds that the worker's loop has to queue a message; then whoever asked is told to do it, well
before it would stop waiting."""

_TICK = 0.05

_FLUSH = 1


@dataclass(frozen=True, slots=True)
class HolderAnswers:
    """What the holder of a task says when it is asked."""

    subject: str
    """The task's control subject."""
    answer: Holding
    cancel: Callable[[], None]
    """Called on the worker's loop when somebody asks to cancel."""
    take_in: Callable[[Control], Coroutine[Any, Any, int | InputRefusal]]
    """Run on the worker's loop when somebody hands a message in: its generation in the log."""
    refuses: Callable[[], bool]
    """Asked on any thread: whether the agent takes no message now."""


class Hold:
    """One pulled run, from its arrival until it is acknowledged, given back or lost."""

    __slots__ = ("answers", "beat", "reply", "since", "subscription")

    def __init__(self, reply: str) -> None:
        """Hold the run that is acknowledged on the subject `reply`."""
        self.reply = reply
        self.since = time.monotonic()
        self.beat = 0.0
        self.answers: HolderAnswers | None = None
        """None while it is not decided that this worker holds the task."""
        self.subscription: Subscription | None = None


class WorkerLeases:
    """All holds of a worker."""

    def __init__(self, heartbeat_thread: HeartbeatThread) -> None:
        """Keep holds on `heartbeat_thread`'s loop; made on the worker's."""
        self._heartbeat_thread = heartbeat_thread
        self._workers_loop = asyncio.get_running_loop()
        self._holds: set[Hold] = set()
        self._lock = threading.Lock()
        self._kept: set[Hold] = set()
        self._health_probe = time.monotonic()

    def start(self) -> None:
        """Begin to keep."""
        self._heartbeat_thread.spawn(self._keep())

    def take(self, reply: str) -> Hold:
        """Keep the run that is acknowledged on `reply`."""
        hold = Hold(reply)
        with self._lock:
            self._holds.add(hold)
        return hold

    def release(self, hold: Hold) -> None:
        """Keep it no more: no heartbeat, no answer."""
        with self._lock:
            self._holds.discard(hold)

    async def let_go(self, hold: Hold) -> None:
        """As `release`, and return when nobody who asks is answered any more."""
        self.release(hold)
        await self._heartbeat_thread.call(self._fall_silent(hold))

    def health_probe(self) -> None:
        """Say that the worker's loop runs."""
        self._health_probe = time.monotonic()

    async def _keep(self) -> None:
        blocked = False
        while True:
            with self._lock:
                holds = set(self._holds)
            try:
                await self._look_after(holds)
            except (NatsError, OSError) as trouble:
                _log.debug("leases: %s", trouble)
            except Exception:  # noqa: BLE001  # without this loop every lease is lost
                _log.exception("leases")
            blocked = self._watch_health(blocked=blocked)
            await asyncio.sleep(_TICK)

    async def _look_after(self, holds: set[Hold]) -> None:
        now = time.monotonic()
        for hold in self._kept - holds:
            await self._forget(hold)
        for hold in holds:
            # One may have been released while another was looked after.
            if now - hold.since >= _TICK and hold in self._holds:
                await self._look_after_one(hold, now)

    async def _look_after_one(self, hold: Hold, now: float) -> None:
        self._kept.add(hold)
        if now - hold.beat >= HEARTBEAT:
            hold.beat = now
            await self._heartbeat_thread.bus.connection.publish(hold.reply, IN_PROGRESS)
        if hold.answers is not None and hold.subscription is None:
            await self._answer(hold, hold.answers)

    async def _answer(self, hold: Hold, answers: HolderAnswers) -> None:
        async def receive(msg: Msg) -> None:
            if hold in self._holds:
                await self._respond(msg, answers)

        subscription = await self._heartbeat_thread.bus.connection.subscribe(
            answers.subject, cb=receive
        )
        if hold in self._kept:
            hold.subscription = subscription
        else:
            await subscription.unsubscribe()

    async def _respond(self, msg: Msg, answers: HolderAnswers) -> None:
        try:
            asked = Control.decode(msg.subject, msg.data)
        except UndecodableMessage as error:
            _log.warning("%s", error)
            return
        if asked.ask == "cancel":
            self._workers_loop.call_soon_threadsafe(answers.cancel)
        if asked.ask == "input":
            # Not waited for: the next question may be whether anybody is there.
            self._heartbeat_thread.spawn(self._take_in(msg, asked, answers))
            return
        await self._heartbeat_thread.bus.connection.publish(msg.reply, answers.answer.encode())

    async def _take_in(self, msg: Msg, asked: Control, answers: HolderAnswers) -> None:
        taken: int | InputRefusal = InputRefusal("blocked")
        if answers.refuses():
            taken = InputRefusal("policy")
        elif self._silence < TAKE_IN:
            work = asyncio.run_coroutine_threadsafe(answers.take_in(asked), self._workers_loop)
            # Not cancelled: should it be queued twice, the log shows under which name.
            waiting = asyncio.shield(asyncio.wrap_future(work))
            with suppress(TimeoutError):
                taken = await asyncio.wait_for(waiting, TAKE_IN)
        more: dict[str, object] = {"generation": taken}
        if isinstance(taken, InputRefusal):
            refused = {"refused": taken.reason, "generation": taken.generation}
            more = {"accepted": False, **refused}
        answer = answers.answer.model_copy(update=more)
        await self._heartbeat_thread.bus.connection.publish(msg.reply, answer.encode())

    async def _fall_silent(self, hold: Hold) -> None:
        await self._forget(hold)
        # What the worker publishes next goes by another connection, and must not come first.
        await self._heartbeat_thread.bus.connection.flush(_FLUSH)

    async def _forget(self, hold: Hold) -> None:
        self._kept.discard(hold)
        subscription, hold.subscription = hold.subscription, None
        if subscription is not None:
            await subscription.unsubscribe()

    @property
    def _silence(self) -> float:
        """Seconds without a sign of the worker's loop."""
        return time.monotonic() - self._health_probe

    def _watch_health(self, *, blocked: bool) -> bool:
        silence = self._silence
        if silence < BLOCKED:
            if blocked:
                _log.warning("the event loop is running again")
            return False
        if not blocked:
            _log.warning("an agent has blocked the event loop for %.1f s", silence)
        return True
