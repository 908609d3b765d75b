"""Webhooks of tasks (A2A's push notification configurations) and their delivery progress.

They are stored in a bucket, one record per webhook, changed by compare-and-set. Gateways create and
delete them, task state delivers to them. After creating one, a gateway publishes a message to the
push work queue that notifies task state.
"""

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from headrace.jetstream.api import get_message, store_with_retries, until_answered
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, KeyChanged
from headrace.jetstream.purge import purge
from headrace.model.answers import TaskAnswers, state_of
from headrace.model.errors import BusUnavailable, HeadraceError, UndecodableMessage
from headrace.model.events import Json
from headrace.model.messages import BusMessage, WokenRun
from headrace.model.subjects import encode_token
from headrace.model.task import TERMINAL, TaskKey, is_task_id
from headrace.number_limit import NumberLimit

CURRENT = "1.0"
"""The A2A version of logs."""

OLD = "0.3"
"""The A2A version in which a webhook gets the whole Task each time."""

MOST_PER_TASK = 16
"""Maximum number of webhooks per task, without those of runs that wait for it."""

MOST_WAITING = 100
"""Maximum number of runs that wait for the end of one task."""

_FORGET_AFTER = 60
"""Seconds after which a deletion marker expires: every task may have had webhooks."""

_ATTEMPTS = 10


WAIT = "wait "
"""Beginning of the ids of webhooks that wake runs; clients can't use them."""

ANSWERS = "answers"
"""Id of the webhook that publishes a task's answers on NATS."""


class TooManyWebhooks(HeadraceError):
    """The task has the maximum number of webhooks."""

    code = "too_many_webhooks"


class Address(BusMessage):
    """The address of a webhook and the credentials to send."""

    url: str
    token: str | None = None
    """Sent as ``X-A2A-Notification-Token``."""
    scheme: str | None = None
    """The scheme in ``Authorization``. None: the header is not sent."""
    credentials: str | None = None
    """The rest of ``Authorization``."""


class WebhookProgress(BusMessage):
    """The delivery progress of a webhook."""

    generation: int
    """Generation of the last event that was delivered or given up."""
    sequence: int = 0
    """Stream sequence up to which every entry has been delivered completely. 0: none."""
    until: int = 0
    """Last generation of the current delivery. 0: no delivery is in progress."""
    attempts: int = 0
    """Attempts at the current delivery."""
    begun: float = 0.0
    """Time since which it may have been sent, in seconds since 1970: that of the first attempt, or
    of its event if that is past retention. 0: unknown, or none."""
    due: float = 0.0
    """Time of the next attempt, in seconds since 1970."""
    is_given_up: bool = False
    """Whether the last delivery was given up. Then each delivery gets one attempt until one
    succeeds."""
    failure: str = ""
    """Why the last attempt failed. Empty: none has failed since a delivery succeeded."""
    traceparent: str | None = None
    """W3C trace context of the newest input up to there that came with one."""

    @property
    def is_in_progress(self) -> bool:
        """Whether an attempt was begun and its outcome is not recorded."""
        return bool(self.until) and not self.due


class TaskWebhook(BusMessage):
    """A webhook's record."""

    id: str
    """The client's id of the webhook."""
    owner: str
    """Owner of the task, as a subject token."""
    address: Address
    progress: WebhookProgress
    version: str = CURRENT
    """A2A version that the client created it in, as ``major.minor``."""
    base: str = ""
    """Scheme and host of the client's request, the base of file URLs in deliveries. Empty: links
    stay as they are in the log."""
    answers: TaskAnswers | None = None
    """Where its notifications are published on NATS. None: they are requests to `address`."""
    wakes: WokenRun | None = None
    """The run that the task's end wakes. None: its notifications go elsewhere."""

    @property
    def is_for_end(self) -> bool:
        """Whether it gets the task as it is at its end."""
        return self.wakes is not None or (self.answers is not None and self.answers.what == "end")

    def is_for(self, event: Json) -> bool:
        """Return whether it gets the event, a StreamResponse."""
        if self.wakes is not None:
            return "message" in event or state_of(event) in TERMINAL
        return self.answers is None or self.answers.include(event)


def answers_webhook(owner: str, answers: TaskAnswers) -> TaskWebhook:
    """Return the webhook that publishes the answers of a new task of `owner`."""
    return TaskWebhook(
        id=ANSWERS,
        owner=owner,
        address=Address(url=f"nats:{answers.subject}"),
        progress=WebhookProgress(generation=0),
        answers=answers,
    )


def waking_webhook(owner: str, run: WokenRun) -> TaskWebhook:
    """Return the webhook by which a task of `owner` wakes `run` at its end."""
    return TaskWebhook(
        id=f"{WAIT}{run.task} {run.run}",
        owner=owner,
        address=Address(url=f"headrace-task:{run.task}"),
        progress=WebhookProgress(generation=0),
        wakes=run,
    )


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A record in the bucket."""

    webhook: TaskWebhook
    sequence: int
    written: datetime | None = None
    """When it was written, by NATS's clock; None where this process has just written it."""


def id_of(address: Address, version: str) -> str:
    """Return the id of a webhook to which its client gave none.

    It is derived from the address and version, so a repeated request replaces the webhook instead
    of adding one. Whoever can read the id can also read the secrets that it is derived from.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{version} {address.encode().decode()}"))


@dataclass(frozen=True, slots=True)
class QueuedWebhook:
    """A webhook with a message in the work queue: it has, or may have, events to deliver."""

    sequence: int
    """Of the message in the work queue."""
    key: TaskKey
    token: str
    queued: str
    """Time of the message, in RFC 3339."""
    webhook: TaskWebhook | None
    """None: it was deleted meanwhile."""


class Webhooks:
    """The bucket's records. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.push)

    async def put(self, key: TaskKey, webhook: TaskWebhook) -> None:
        """Store the task's webhook and notify task state.

        An existing webhook with the same id is replaced. Its progress is kept.

        Raises:
            InvalidName: The id is too long.
            TooManyWebhooks: The task has the maximum number of webhooks.
        """
        token = encode_token(webhook.id)
        name = _name(key, token)
        for _ in range(_ATTEMPTS):
            found = await self._bucket.get(name)
            try:
                if found.data is None:
                    add = partial(self._bucket.put, name, webhook.encode(), found.sequence)
                    await self._limit(key).add(add, partial(self._withdraw, name))
                else:
                    replacement = _replacement(_decode(key, found.data), webhook)
                    await self._bucket.put(name, replacement.encode(), found.sequence)
            except KeyChanged:
                continue
            await self.wake(key, token)
            return
        raise BusUnavailable(f"webhook {token} of {key.task} is being changed concurrently")

    async def _withdraw(self, name: str, sequence: int) -> None:
        """Delete the webhook, unless another request has replaced it meanwhile."""
        await self._bucket.delete_revision(name, sequence, seconds=_FORGET_AFTER)

    async def create(self, key: TaskKey, webhook: TaskWebhook) -> None:
        """Store a webhook of a task that may not exist yet; one that is there already stays.

        It needs no right to read webhooks, which have secrets.

        Raises:
            InvalidName: The id is too long.
        """
        token = encode_token(webhook.id)
        with suppress(KeyChanged):
            await self._bucket.put(_name(key, token), webhook.encode(), 0)
        await self.wake(key, token)

    async def wait(self, key: TaskKey, webhook: TaskWebhook) -> None:
        """Store the webhook by which the end of a task wakes a run, as `create` does.

        Raises:
            TooManyWebhooks: The maximum number of runs waits for that end.
        """

        async def count() -> int:
            kept = await self._bucket.copy(_name(key, "*"), is_latest=True)
            return sum(_decode(key, one.data).wakes is not None for one in kept.values())

        token = encode_token(webhook.id)
        name = _name(key, token)
        refusal = TooManyWebhooks(f"at most {MOST_WAITING} runs may wait for it")
        if (await self._bucket.get(name)).data is None:
            put = partial(self._bucket.put, name, webhook.encode(), 0)
            with suppress(KeyChanged):
                await NumberLimit(MOST_WAITING, count, refusal).add(
                    put, partial(self._withdraw, name)
                )
        await self.wake(key, token)

    async def get(self, key: TaskKey, token: str) -> StoredWebhook | None:
        """Return the webhook whose encoded id is `token`. None: it does not exist."""
        found = await self._bucket.get(_name(key, token))
        if found.data is None:
            return None
        return StoredWebhook(_decode(key, found.data), found.sequence, found.written)

    async def store_progress(
        self, key: TaskKey, token: str, kept: StoredWebhook, progress: WebhookProgress
    ) -> StoredWebhook:
        """Store the webhook's progress and return the new record.

        Raises:
            KeyChanged: The client has changed or deleted the webhook meanwhile.
        """
        webhook = kept.webhook.model_copy(update={"progress": progress})
        name = _name(key, token)
        return StoredWebhook(webhook, await self._bucket.put(name, webhook.encode(), kept.sequence))

    async def list(self, key: TaskKey) -> list[TaskWebhook]:
        """Return the webhooks that clients have created for the task, oldest first."""
        found = await self._bucket.under(_name(key, "*"))
        webhooks = [_decode(key, value.data or b"") for _, value in found]
        return [one for one in webhooks if one.wakes is None]

    async def delete(self, key: TaskKey, token: str) -> None:
        """Delete a webhook. Nothing happens if it does not exist."""
        if (await self._bucket.get(_name(key, token))).data is not None:
            await self._bucket.delete(_name(key, token), seconds=_FORGET_AFTER)

    async def delete_all(self, key: TaskKey) -> None:
        """Delete all webhooks of a task that is gone, and their queued messages."""
        for name, _ in await self._bucket.under(_name(key, "*")):
            await self._bucket.delete(name, seconds=_FORGET_AFTER)
        await purge(self._bus, self._bus.streams.pushes, self._bus.subjects.pushes_of_task(key))

    async def tasks(self) -> dict[TaskKey, set[str]]:
        """Return the tokens of all webhooks, by task."""
        found: dict[TaskKey, set[str]] = {}
        for name in await self._bucket.keys():
            if (place := _place(name)) is not None:
                found.setdefault(place[0], set()).add(place[1])
        return found

    async def answers_in_progress(self, since: datetime) -> Sequence[tuple[TaskKey, str]]:
        """Return the task and token of each webhook that may be publishing an answer.

        Only of those whose record was written since then by NATS' clock, up to the newest.
        """
        recent = await self._bucket.copy(since=since, is_latest=True)
        return [
            place
            for name, copied in recent.items()
            if (place := _place(name)) is not None and _is_publishing(place[0], copied.data)
        ]

    async def wake(self, key: TaskKey, token: str) -> None:
        """Have task state check whether the webhook has events to deliver."""
        await store_with_retries(self._bus, self._bus.subjects.push(key, token), b"{}")

    async def queued(
        self, tenant: str, agent: str, task: str, after: int, limit: int
    ) -> Sequence[QueuedWebhook]:
        """Return the first webhooks in the work queue after sequence `after`, oldest message first.

        Each costs two requests.

        Args:
            tenant: As a token, as are the following two.
            agent: Or ``*``: of any.
            task: Or ``*``: any.
            after: 0 for all.
            limit: The maximum number.
        """
        pattern = f"{self._bus.subjects.prefix}.push.*.{tenant}.{agent}.{task}.>"
        messages = await _messages(self._bus, self._bus.streams.pushes, pattern, after, limit)
        return await asyncio.gather(*map(self._queued, messages))

    async def _queued(self, message: Json) -> QueuedWebhook:
        key, token = self._bus.subjects.key_of_push(message["subject"])
        kept = await self.get(key, token)
        webhook = None if kept is None else kept.webhook
        return QueuedWebhook(int(message["seq"]), key, token, message["time"], webhook)

    def _limit(self, key: TaskKey) -> NumberLimit:
        async def count() -> int:
            return len(await self.list(key))

        refusal = TooManyWebhooks(f"a task may have {MOST_PER_TASK} push notification configs")
        return NumberLimit(MOST_PER_TASK, count, refusal)


def _replacement(before: TaskWebhook, webhook: TaskWebhook) -> TaskWebhook:
    """Return `webhook` with the place in the log up to which `before` was delivered."""
    progress = WebhookProgress(
        generation=before.progress.generation,
        sequence=before.progress.sequence,
        traceparent=before.progress.traceparent,
    )
    return webhook.model_copy(update={"progress": progress})


async def _messages(bus: Bus, stream: str, pattern: str, after: int, limit: int) -> list[Json]:
    """Return the first messages after sequence `after`."""
    messages = list[Json]()
    while len(messages) < limit:
        query = {"seq": after + 1, "next_by_subj": pattern}
        found = await until_answered(bus, partial(get_message, bus, stream, query))
        if found is None:
            break
        messages.append(found)
        after = int(found["seq"])
    return messages


def _name(key: TaskKey, token: str) -> str:
    # The agent is part of the name because another agent's worker may write a log under the task's
    # id.
    return f"{key.tenant}.{key.agent}.{key.task}.{token}"


def _place(name: str) -> tuple[TaskKey, str] | None:
    """Return the task and the token of a record's name."""
    match name.split("."):
        case [tenant, agent, task, token] if is_task_id(task):
            return TaskKey(tenant, agent, task), token
    return None


def _is_publishing(key: TaskKey, data: bytes) -> bool:
    try:
        webhook = _decode(key, data)
    except UndecodableMessage:
        return False  # Whoever delivers to it reports that.
    return webhook.answers is not None and webhook.progress.is_in_progress


def _decode(key: TaskKey, data: bytes) -> TaskWebhook:
    return TaskWebhook.decode(f"webhook of {key.task}", data)
