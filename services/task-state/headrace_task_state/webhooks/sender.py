"""Send one webhook, in order, all events that it has not been sent yet."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nats.aio.msg import Msg

from headrace.jetstream.api import store_with_retries
from headrace.jetstream.connection import Bus
from headrace.jetstream.server_clock import ServerClock
from headrace.lazy import Lazy
from headrace.log import last_entry
from headrace.model.answers import TaskAnswers
from headrace.model.errors import BusUnavailable, LogLost, SettingInvalid, UndecodableMessage
from headrace.model.events import timestamp
from headrace.model.task import TaskKey
from headrace.signing import SigningKeys
from headrace.webhooks import StoredWebhook, TaskWebhook, WebhookProgress, Webhooks
from headrace_task_state.maintenance.timing import MaintenanceTiming
from headrace_task_state.settings import TaskStateSettings
from headrace_task_state.webhooks.bodies import Snapshots, body_of, event_of, grouping_of
from headrace_task_state.webhooks.bus_answers import BusAnswers
from headrace_task_state.webhooks.deliveries import WebhookDelivery, deliveries
from headrace_task_state.webhooks.notice import (
    Failure,
    NotConvertible,
    Notice,
    UndeliveredLetters,
    UndeliveredNotification,
    notice_id,
)
from headrace_task_state.webhooks.permits import Permits, Target
from headrace_task_state.webhooks.woken_runs import wake_at_end

if TYPE_CHECKING:
    from headrace_task_state.webhooks.attempt import Attempts
    from headrace_task_state.webhooks.network import AllowedDestinations

_log = logging.getLogger(__name__)

_NO_TASK_YET = 0.3


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double, each shortened by a random part, so that retries do not coincide."""

    attempts: int
    """Attempts after which a delivery is given up."""
    first: float
    """Maximum seconds after the first attempt."""
    longest: float
    """Maximum seconds between attempts."""

    def wait(self, attempts: int, least: float = 0.0) -> float:
        """Return the seconds until the next attempt; the receiver requested at least `least`."""
        full = min(self.first * float(1 << min(attempts - 1, 30)), self.longest)
        return max(full * random.uniform(0.5, 1.0), least)  # noqa: S311 - nothing to guess

    def is_over(self, attempts: int, *, is_given_up: bool) -> bool:
        """Return whether no attempt is left; after one was given up, later ones get one each."""
        return is_given_up or attempts >= self.attempts


@dataclass(frozen=True, slots=True)
class SenderResources:
    """The dependencies of sending notifications."""

    bus: Bus
    webhooks: Webhooks
    attempts: "Lazy[Attempts]"
    """Loaded with the first notification: few fleets send any."""
    bus_answers: BusAnswers
    backoff: Backoff
    permits: Permits
    letters: UndeliveredLetters
    snapshots: Snapshots
    timing: MaintenanceTiming
    clock: ServerClock
    """Of all times that are stored, because another replica may read them."""
    retention: float
    """Seconds for which an ended task is kept."""


class WebhookSender:
    """Notifies one webhook of one task."""

    def __init__(self, resources: SenderResources, key: TaskKey, token: str) -> None:
        """Prepare to notify the webhook whose id is encoded in `token`."""
        self._resources, self._key, self._token = resources, key, token
        self._settled_until: float | None = None

    async def send(self, kept: StoredWebhook) -> float | None:
        """Send what is unsent; return after how many seconds to continue; None: all is sent.

        Raises:
            KeyChanged: the webhook was changed or deleted meanwhile.
            BusUnavailable: NATS does not answer.
        """
        webhook = kept.webhook
        if (wait := webhook.progress.due - self._resources.clock.now()) > 0:
            return wait
        target = Target.of(self._key.tenant, webhook)
        with self._resources.permits.permit(target) as wait:
            if wait:
                return wait
            async with self._resources.permits.turn(target):
                try:
                    return await self._send_settled(kept)
                except LogLost as loss:
                    _log.info("webhook of task %s: %s", self._key.task, loss)
                    await self._resources.webhooks.delete(self._key, self._token)
                    return None

    async def _without_task(self, kept: StoredWebhook) -> float | None:
        """Delete the webhook if its task should have begun; both times are by NATS' clock."""
        least, now = self._resources.timing.webhook_without_task, self._resources.clock.now()
        if kept.written is None or now - kept.written.timestamp() < least:
            return _NO_TASK_YET
        await self._resources.webhooks.delete(self._key, self._token)
        return None

    async def _send_settled(self, kept: StoredWebhook | None) -> float | None:
        """Send what is unsent; answers on NATS until it is known what became of each.

        A stream recognizes an answer that it has only within its duplicate window, and may not be
        open to searches. So an answer whose outcome is unknown does not return to the queue, where
        others are before it.
        """
        while kept is not None:
            if (wait := kept.webhook.progress.due - self._resources.clock.now()) > 0:
                return wait
            try:
                return await self._send_now(kept)
            except BusUnavailable as error:
                if kept.webhook.answers is None or not self._may_settle():
                    raise
                _log.info("answers of task %s: %s", self._key.task, error)
            await asyncio.sleep(self._resources.bus.timing.retry)
            with suppress(BusUnavailable):
                kept = await self._resources.webhooks.get(self._key, self._token)
        return None

    def _may_settle(self) -> bool:
        """Return whether an answer is still published again at once, since the outage began."""
        now = time.monotonic()
        self._settled_until = self._settled_until or now + self._resources.timing.answer_in_doubt
        return now <= self._settled_until

    async def _send_now(self, kept: StoredWebhook) -> float | None:
        is_new = not kept.webhook.progress.sequence
        if is_new and await last_entry(self._resources.bus, self._key) is None:
            return await self._without_task(kept)
        return await self._send_unsent(kept)

    async def _send_unsent(self, kept: StoredWebhook) -> float | None:
        progress, groups = kept.webhook.progress, grouping_of(kept.webhook)
        async for delivery in deliveries(self._resources.bus, self._key, progress, groups):
            answers = kept.webhook.answers
            if not kept.webhook.is_for(delivery.events[-1]):
                progress = _past(progress, delivery)
                continue
            is_in_doubt = _is_in_doubt(kept.webhook, progress, delivery)
            begun = self._begun(progress, delivery)
            under_way = _under_way(progress, delivery, begun, is_in_doubt=is_in_doubt)
            if answers is not None and await self._is_stored(
                answers, kept.webhook.id, under_way, delivery
            ):
                which = f"{delivery.log}:{delivery.generation}"
                _log.info("answers of task %s: stored already: %s", self._key.task, which)
                progress = _done(delivery, None)
                continue
            if is_in_doubt:
                since = timestamp(datetime.fromtimestamp(begun, UTC))
                which = f"{delivery.log}:{delivery.generation}, perhaps published since {since}"
                _log.info("answers of task %s: published again: %s", self._key.task, which)
            kept = await self._resources.webhooks.store_progress(
                self._key, self._token, kept, under_way
            )
            undelivered = await self._undelivered(kept.webhook, delivery)
            failure = await self._attempt(kept.webhook, undelivered, under_way.attempts)
            if is_in_doubt and failure is not None and failure.is_passing and self._may_settle():
                raise BusUnavailable(failure.reason)
            self._settled_until = None
            if failure is not None and not self._is_over(failure, under_way):
                return await self._put_off(kept, failure)
            if failure is not None:
                await self._give_up(kept.webhook, undelivered, failure)
                if failure.is_gone:
                    await self._resources.webhooks.delete(self._key, self._token)
                    return None
            progress = _done(delivery, failure)
        if progress != kept.webhook.progress:
            await self._resources.webhooks.store_progress(self._key, self._token, kept, progress)
        return None

    def _begun(self, progress: WebhookProgress, delivery: WebhookDelivery) -> float:
        """Return the time since which the delivery may have been sent, in seconds since 1970.

        One past retention may have been sent before its task was erased: after ``kill -9``,
        nats-server may have the log and the webhook again, in its first state.
        """
        if progress.until == delivery.generation and progress.begun:
            return progress.begun
        now = self._resources.clock.now()
        return delivery.stored if now - delivery.stored >= self._resources.retention else now

    async def _is_stored(
        self, answers: TaskAnswers, name: str, under_way: WebhookProgress, delivery: WebhookDelivery
    ) -> bool:
        """Return whether an earlier attempt has stored the answer, if it is that long ago.

        Earlier than that, the stream itself recognizes the answer.
        """
        if self._resources.clock.now() - under_way.begun < self._resources.timing.answer_looked_for:
            return False
        notice = notice_id(delivery.log, delivery.generation, name)
        return await self._resources.bus_answers.has_stored(answers, notice, under_way.begun)

    async def _undelivered(
        self, webhook: TaskWebhook, delivery: WebhookDelivery
    ) -> UndeliveredNotification:
        snapshots = self._resources.snapshots
        return UndeliveredNotification(
            log=delivery.log,
            generation=delivery.generation,
            event=await event_of(webhook, self._key, self._token, delivery, snapshots),
            traceparent=delivery.traceparent,
        )

    async def _put_off(self, kept: StoredWebhook, failure: Failure) -> float:
        """Record the failed attempt; return the seconds until the next one."""
        attempt = kept.webhook.progress.attempts
        wait = self._resources.backoff.wait(attempt, failure.wait)
        later = kept.webhook.progress.model_copy(
            update={"due": self._resources.clock.now() + wait, "failure": failure.reason}
        )
        await self._resources.webhooks.store_progress(self._key, self._token, kept, later)
        reason = failure.reason
        _log.info("webhook of task %s: attempt %d failed: %s", self._key.task, attempt, reason)
        return wait

    def _is_over(self, failure: Failure, progress: WebhookProgress) -> bool:
        return failure.is_final or self._resources.backoff.is_over(
            progress.attempts, is_given_up=progress.is_given_up
        )

    async def _attempt(
        self,
        webhook: TaskWebhook,
        progress: UndeliveredNotification,
        number: int,
    ) -> Failure | None:
        name = notice_id(progress.log, progress.generation, webhook.id)
        if webhook.answers is not None:
            published = self._resources.bus_answers
            return await published.publish(
                webhook.answers,
                self._key,
                name,
                progress.event,
                progress.traceparent,
            )
        if webhook.wakes is not None:
            run, owner = webhook.wakes, webhook.owner
            await wake_at_end(self._resources.bus, self._key, run, owner, progress.event)
            return None
        try:
            body = await body_of(webhook, progress.event)
        except NotConvertible as error:
            return Failure(str(error), is_final=True)
        attempts = await self._resources.attempts.ready()
        notice = Notice(self._key.task, name, body, number, progress.traceparent)
        return await attempts.make(webhook, notice)

    async def _give_up(
        self, webhook: TaskWebhook, undelivered: UndeliveredNotification, failure: Failure
    ) -> None:
        _log.warning("webhook of task %s: all attempts failed: %s", self._key.task, failure.reason)
        await self._resources.letters.send(
            self._key, webhook, self._token, undelivered, failure.reason
        )

    async def resend(self, kept: StoredWebhook, msg: Msg) -> float | None:
        """Send a notification that was given up and that an operator retries; returns as `send`.

        Raises:
            BusUnavailable: NATS does not answer.
        """
        try:
            again = UndeliveredNotification.decode(msg.subject, msg.data)
        except UndecodableMessage as error:
            _log.error("%s", error)
            return None
        if (wait := again.due - self._resources.clock.now()) > 0:
            return wait
        # Not the message's deliveries: one that waits for a permit or its time is no attempt.
        target, attempt = Target.of(self._key.tenant, kept.webhook), again.attempts + 1
        with self._resources.permits.permit(target) as wait:
            if wait:
                return wait
            async with self._resources.permits.turn(target):
                failure = await self._attempt(kept.webhook, again, attempt)
        if failure is None:
            return None
        if failure.is_final or self._resources.backoff.is_over(attempt, is_given_up=False):
            undelivered = again.model_copy(update={"attempts": 0, "due": 0.0})
            await self._resources.letters.send(
                self._key,
                kept.webhook,
                self._token,
                undelivered,
                failure.reason,
                retried=msg.metadata.sequence.stream,
            )
            return None
        due = self._resources.clock.now() + self._resources.backoff.wait(attempt, failure.wait)
        later = again.model_copy(update={"attempts": attempt, "due": due})
        # It replaces the message.
        await store_with_retries(self._resources.bus, msg.subject, later.encode())
        return None


def _past(progress: WebhookProgress, delivery: WebhookDelivery) -> WebhookProgress:
    """Return the progress behind events that the webhook is not for."""
    update = {
        "generation": delivery.generation,
        "sequence": delivery.resume_after,
        "until": 0,
        "begun": 0.0,
        "traceparent": delivery.traceparent,
    }
    return progress.model_copy(update=update)


def _under_way(
    progress: WebhookProgress, delivery: WebhookDelivery, begun: float, *, is_in_doubt: bool
) -> WebhookProgress:
    """Return the progress during an attempt; an answer published again is no new attempt."""
    attempts = progress.attempts + (0 if is_in_doubt else 1)
    update = {
        "until": delivery.generation,
        "attempts": attempts,
        "begun": begun,
        "due": 0.0,
    }
    return progress.model_copy(update=update)


def _is_in_doubt(
    webhook: TaskWebhook, progress: WebhookProgress, delivery: WebhookDelivery
) -> bool:
    """Return whether the delivery is an answer on NATS that may be stored already."""
    is_again = progress.is_in_progress and progress.until == delivery.generation
    return is_again and webhook.answers is not None


def _done(delivery: WebhookDelivery, failure: Failure | None) -> WebhookProgress:
    """Return the progress behind a delivery that was made, or given up for `failure`."""
    return WebhookProgress(
        generation=delivery.generation,
        sequence=delivery.resume_after,
        is_given_up=failure is not None,
        failure="" if failure is None else failure.reason,
        traceparent=delivery.traceparent,
    )


@asynccontextmanager
async def sender_resources(
    bus: Bus,
    settings: TaskStateSettings,
    keys: SigningKeys,
    timing: MaintenanceTiming,
    clock: ServerClock,
    *,
    retention: float,
) -> AsyncIterator[SenderResources]:
    """Yield the dependencies of sending, on a connected bus; `keys` sign.

    The fleet keeps ended tasks for `retention` seconds.

    Raises:
        BusUnavailable: the fleet's keys can't be read.
    """

    def attempting() -> "Attempts":
        # Here, because httpcore and what signs are a large import.
        from headrace_task_state.webhooks.attempt import Attempts  # noqa: PLC0415 - see above

        return Attempts(keys, allowed_destinations(settings.push_allow), settings.push_timeout)

    attempts = Lazy(attempting)
    try:
        await keys.start()
        yield SenderResources(
            bus,
            Webhooks(bus),
            attempts,
            BusAnswers(bus, settings.push_timeout),
            Backoff(settings.push_attempts, settings.push_backoff, settings.push_backoff_max),
            Permits(settings.push_per_owner, settings.push_per_host),
            UndeliveredLetters(bus),
            Snapshots(bus),
            timing,
            clock,
            retention,
        )
    finally:
        await keys.stop()
        if (made := attempts.made) is not None:
            await made.close()


def allowed_destinations(items: list[str]) -> "AllowedDestinations":
    """Return what the items of HEADRACE_PUSH_ALLOW allow.

    Raises:
        SettingInvalid: one is neither a host nor a network.
    """
    from headrace_task_state.webhooks.network import AllowedDestinations  # noqa: PLC0415 - as above

    try:
        return AllowedDestinations.parse(items)
    except ValueError as error:
        raise SettingInvalid(f"HEADRACE_PUSH_ALLOW: {error}") from None
