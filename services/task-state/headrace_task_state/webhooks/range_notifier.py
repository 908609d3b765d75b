"""Notification of the webhooks of one range's tasks, by the replica that holds the range."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from nats.aio.msg import Msg

from headrace import log_context
from headrace.background import keep_running
from headrace.jetstream.kv import KeyChanged
from headrace.log import last_entry
from headrace.log_context import LogContext
from headrace.model.errors import BusUnavailable, LogTooNew, StateUnavailable, UndecodableMessage
from headrace.model.subjects import stream_of_shard
from headrace.model.task import TaskKey
from headrace_task_state.store import LeaseLost, Range
from headrace_task_state.webhooks.permits import Target
from headrace_task_state.webhooks.queue import Queue, QueueLost
from headrace_task_state.webhooks.sender import SenderResources, WebhookSender

_log = logging.getLogger(__name__)

_PAUSE = 0.5
_AFTER_MOVE = 0.01
_AFTER_LOSS = 0.5
_RETRY_PAUSE = 2.0
_AFTER_ERROR = 60.0

_RECENT = 300.0
"""Seconds since an answer was begun within which it is published first, before the queue is read:
longer than a stream's usual duplicate window and the takeover of a range."""
_LOOK_EVERY = 0.01
"""Seconds between two looks at whether a webhook's task still has a log."""


class RangeNotifier:
    """Knows which tasks of the range have webhooks, and notifies them.

    A task without webhooks costs a set lookup. For other tasks, a message is put into the work
    queue before the range's position advances. So the change is delivered even if any process is
    killed.
    """

    def __init__(
        self, resources: SenderResources, place: Range, confirm: Callable[[], Awaitable[None]]
    ) -> None:
        """Notify webhooks of the tasks in `place`.

        `confirm` raises LeaseLost once another replica may have taken the range.
        """
        self._resources, self._place, self._confirm = resources, place, confirm
        self._queue = Queue(resources.bus, place.stream, self._receive)
        self._watched: dict[TaskKey, dict[str, Target | None]] = {}
        """By task and token: the webhook's target, once it has been read."""
        self._loaded = asyncio.Event()
        self._busy: set[str] = set()
        self._next: dict[str, Msg] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._unseen: set[TaskKey] = set()
        """Tasks that have not been looked at since their webhooks were found in the bucket."""
        self._is_settled = False

    async def run(self) -> None:
        """Notify until cancelled; wait out failures of NATS."""
        try:
            while True:
                try:
                    await self._load()
                    await self._settle()
                    looking = keep_running(self._look_for_erased, f"webhooks of {self._place.name}")
                    try:
                        await self._queue.run()
                    finally:
                        looking.cancel()
                except (QueueLost, BusUnavailable) as error:
                    _log.info("webhooks of range %s are delayed: %s", self._place.name, error)
                    await asyncio.sleep(_PAUSE)
        finally:
            await self._stop()

    async def announce(self, keys: Iterable[TaskKey]) -> None:
        """Queue the webhooks of those tasks, which have changed, for delivery.

        Raises:
            BusUnavailable: it is not certain that they are queued.
        """
        if not self._loaded.is_set():
            await self._loaded.wait()
        if not self._watched:
            return
        wakes = [
            self._resources.webhooks.wake(key, token)
            for key in keys
            for token in self._watched.get(key, ())
        ]
        if wakes:
            await asyncio.gather(*wakes)

    async def has_unsent(self, key: TaskKey) -> bool:
        """Return whether a webhook has not been sent all events of the task; queue it then.

        What is given up counts as sent.

        Raises:
            BusUnavailable: it is not certain.
        """
        await self._loaded.wait()
        tokens = list(self._watched.get(key, ()))
        last = await last_entry(self._resources.bus, key) if tokens else None
        if last is None:
            return False
        webhooks, found = self._resources.webhooks, False
        for token in tokens:
            kept = await webhooks.get(key, token)
            if kept is not None and kept.webhook.progress.generation < last.last_generation:
                await webhooks.wake(key, token)
                found = True
        return found

    async def forget(self, key: TaskKey) -> None:
        """Delete the webhooks of a task that is gone.

        Raises:
            BusUnavailable: not all of them are deleted.
        """
        await self._loaded.wait()
        if key in self._watched:
            await self._resources.webhooks.delete_all(key)
            self._watched.pop(key, None)

    async def _load(self) -> None:
        for key, tokens in (await self._resources.webhooks.tasks()).items():
            if stream_of_shard(key.shard) == self._place.stream:
                watched = self._watched.setdefault(key, {})
                if not tokens <= watched.keys():
                    self._unseen.add(key)
                self._watched[key] = dict.fromkeys(tokens) | watched
        self._loaded.set()

    async def _settle(self) -> None:
        """Begin with the answers that were being published when the range's last replica died.

        The stream recognizes those that it has only for a while, and their messages in the queue
        may have been replaced by newer ones, which are behind all others.
        """
        if self._is_settled:
            return
        since = datetime.fromtimestamp(self._resources.clock.now() - _RECENT, UTC)
        for key, token in await self._resources.webhooks.answers_in_progress(since):
            subject = self._resources.bus.subjects.push(key, token)
            if stream_of_shard(key.shard) == self._place.stream and subject not in self._busy:
                self._begin(subject, None)
        self._is_settled = True

    async def _look_for_erased(self) -> None:
        """Queue the webhooks of tasks without a log, which deletes them.

        After ``kill -9``, nats-server may have what was deleted again: see `Bucket.delete`.
        """
        while self._unseen:
            key = next(iter(self._unseen))
            try:
                with suppress(LogTooNew):
                    if await last_entry(self._resources.bus, key) is None:
                        for token in list(self._watched.get(key, ())):
                            await self._resources.webhooks.wake(key, token)
            except BusUnavailable as error:
                _log.info("the webhooks of task %s will be checked later: %s", key.task, error)
                await asyncio.sleep(_RETRY_PAUSE)
            else:
                self._unseen.discard(key)
                await asyncio.sleep(_LOOK_EVERY)

    async def _stop(self) -> None:
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self._queue.give_back()

    def _receive(self, msg: Msg) -> None:
        """Process a message; one at a time per subject, then the newest one that has arrived."""
        subject = msg.subject
        if subject in self._busy:
            if (replaced := self._next.get(subject)) is not None:
                self._queue.drop(replaced)
            self._next[subject] = msg
            return
        self._begin(subject, msg)

    def _begin(self, subject: str, msg: Msg | None) -> None:
        """Process a message, or without one what its queue may have later."""
        self._busy.add(subject)
        task = asyncio.create_task(self._work(subject, msg), name=subject)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _work(self, subject: str, msg: Msg | None) -> None:
        try:
            if msg is None:
                await self._attend_at_once(subject)
                msg = self._next.pop(subject, None)
            while msg is not None:
                wait = await self._attend(subject, msg)
                if wait is None:
                    await self._queue.done(msg)
                else:
                    await self._queue.later(msg, wait)
                msg = self._next.pop(subject, None)
        finally:
            self._busy.discard(subject)

    async def _attend_at_once(self, subject: str) -> None:
        """Do what the queue has not delivered yet; what has to wait for long is left to it."""
        wait = await self._attend(subject, None)
        while wait is not None and wait <= _RETRY_PAUSE:
            await asyncio.sleep(wait)
            wait = await self._attend(subject, None)

    async def _attend(self, subject: str, msg: Msg | None) -> float | None:
        """Process a message; return after how many seconds to process it again."""
        try:
            key, token = self._resources.bus.subjects.key_of_push(subject)
            log_context.begin(LogContext(key.task, agent=key.agent))
            return await self._send(key, token, msg)
        except KeyChanged:
            return _AFTER_MOVE
        except (LeaseLost, StateUnavailable) as error:
            _log.info("%s is left to the replica that has its range: %s", subject, error)
            return _AFTER_LOSS
        except (BusUnavailable, LogTooNew) as error:
            _log.info("%s: %s", subject, error)
            return _RETRY_PAUSE
        except UndecodableMessage as error:
            _log.error("%s", error)
            return None
        except Exception:  # noqa: BLE001 - one message must not hold up the range
            _log.exception("%s", subject)
            return _AFTER_ERROR

    async def _send(self, key: TaskKey, token: str, msg: Msg | None) -> float | None:
        # Before the webhook's record is read, so that later changes are announced.
        targets = self._watched.setdefault(key, {})
        if token not in targets:
            await self._watch_new(key, token)
        target = targets[token]
        if target is not None and (wait := self._resources.permits.wait(target)):
            # A waiting message costs no read.
            return wait
        kept = await self._resources.webhooks.get(key, token)
        again = None
        if msg is not None and msg.subject != self._resources.bus.subjects.push(key, token):
            again = msg
        if kept is None:
            if again is not None:
                _log.warning(
                    "dropped a notification: webhook %s of task %s no longer exists",
                    token,
                    key.task,
                )
            self._unwatch(key, token)
            return None
        targets[token] = Target.of(key.tenant, kept.webhook)
        sender = WebhookSender(self._resources, key, token)
        if again is not None:
            return await sender.resend(kept, again)
        return await sender.send(kept)

    async def _watch_new(self, key: TaskKey, token: str) -> None:
        """Watch a webhook that the queue has brought.

        If this replica was suspended, another one may have taken the range and looked for webhooks
        before this one was made. Unless that one gets the message, it announces no change to it.

        Raises:
            LeaseLost: the message belongs to another replica.
            StateUnavailable: that is not certain.
        """
        self._watched[key][token] = None
        try:
            await self._confirm()
        except BaseException:
            self._unwatch(key, token)
            raise

    def _unwatch(self, key: TaskKey, token: str) -> None:
        targets = self._watched.get(key, {})
        targets.pop(token, None)
        if not targets:
            self._watched.pop(key, None)
