"""Webhooks of tasks (A2A's push notification configurations), and how far each has been told.

They lie in a bucket, a record per webhook, changed by compare-and-set: gateways make and delete
them, task state tells them. Whoever makes one puts a message into the work queue behind it, by
which task state learns of it.
"""

import time
import uuid
from dataclasses import dataclass

from pydantic import Field

from headrace.jetstream.api import store_surely
from headrace.jetstream.connection import Bus
from headrace.jetstream.kv import Bucket, Moved
from headrace.jetstream.purge import purge
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.messages import BusMessage
from headrace.model.names import encode_token
from headrace.model.task import TaskKey, is_task_id

CURRENT = "1.0"
"""The version of A2A that logs are written in."""

OLD = "0.3"
"""The version in which a webhook is told the whole Task each time."""

MOST_PER_TASK = 16
"""Webhooks that one task may have."""

_ATTEMPTS = 10


class TooManyWebhooks(HeadraceError):
    """The task has as many webhooks as one may have."""

    code = "too_many_webhooks"


class Address(BusMessage):
    """Where a webhook is, and what it is to be shown."""

    url: str
    token: str | None = None
    """Sent as ``X-A2A-Notification-Token``."""
    scheme: str | None = None
    """First word of ``Authorization``; None: that header is not sent."""
    credentials: str | None = None
    """Its rest."""


class WebhookProgress(BusMessage):
    """How far a webhook has been told."""

    generation: int
    """Of the last event that it was told, or given up on."""
    sequence: int = 0
    """Stream sequence up to which every entry has been told entirely; 0: none."""
    until: int = 0
    """Generation with which the delivery under way ends; 0: none is."""
    attempts: int = 0
    """Of the delivery under way."""
    due: float = 0.0
    """When it is tried again, seconds since 1970."""
    is_given_up: bool = False
    """Whether the last delivery was given up: then each gets one attempt until one succeeds."""


class Webhook(BusMessage):
    """A webhook's record."""

    id: str
    """As the client knows it."""
    owner: str
    """The task's owner, as a token."""
    address: Address
    progress: WebhookProgress
    version: str = CURRENT
    """Of A2A, in which its client made it, by major and minor number."""
    base: str = ""
    """Scheme and host by which its client came, and under which it is shown links of files; empty:
    as they stand in the log."""
    created: float = Field(default_factory=time.time)
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record as it is in the bucket."""

    webhook: Webhook
    sequence: int


def id_of(address: Address, version: str) -> str:
    """Return the id of a webhook to which its client gives none.

    It follows from what the client says, so one that is sent again, as after an answer that says
    nothing of the outcome, takes its own place. Whoever sees it knows the secrets.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{version} {address.encode().decode()}"))


class Webhooks:
    """The bucket's records. Every call raises BusUnavailable if NATS does not answer."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`."""
        self._bus, self._bucket = bus, Bucket(bus, bus.streams.push)

    async def put(self, key: TaskKey, webhook: Webhook) -> None:
        """Keep the task's webhook and have task state look at it.

        One of the same id gives way; what it has been told stays told.

        Raises:
            InvalidName: its id is too long.
            TooManyWebhooks: the task has enough of them.
        """
        token = encode_token(webhook.id)
        for _ in range(_ATTEMPTS):
            found = await self._bucket.get(_name(key, token))
            if found.data is None:
                await self._check_room(key)
            else:
                told = _decode(key, found.data).progress
                told = WebhookProgress(generation=told.generation, sequence=told.sequence)
                webhook = webhook.model_copy(update={"progress": told})
            try:
                await self._bucket.put(_name(key, token), webhook.encode(), found.sequence)
            except Moved:
                continue
            await self.wake(key, token)
            return
        raise BusUnavailable(f"webhook {token} of {key.task} is being changed concurrently")

    async def get(self, key: TaskKey, token: str) -> Kept | None:
        """Return the webhook with the id that `token` stands for."""
        found = await self._bucket.get(_name(key, token))
        return None if found.data is None else Kept(_decode(key, found.data), found.sequence)

    async def tell(self, key: TaskKey, token: str, kept: Kept, progress: WebhookProgress) -> Kept:
        """Write how far it has been told, and return the record.

        Raises:
            Moved: its client has changed or deleted it meanwhile.
        """
        webhook = kept.webhook.model_copy(update={"progress": progress})
        name = _name(key, token)
        return Kept(webhook, await self._bucket.put(name, webhook.encode(), kept.sequence))

    async def list(self, key: TaskKey) -> list[Webhook]:
        """Return the task's webhooks, the oldest first."""
        found = await self._bucket.under(_name(key, "*"))
        return [_decode(key, value.data or b"") for _, value in found]

    async def delete(self, key: TaskKey, token: str) -> None:
        """Delete one; one that is not there is no trouble."""
        if (await self._bucket.get(_name(key, token))).data is not None:
            await self._bucket.delete(_name(key, token))

    async def delete_all(self, key: TaskKey) -> None:
        """Delete those of a task that is gone, and what is queued for them."""
        for name, _ in await self._bucket.under(_name(key, "*")):
            await self._bucket.delete(name)
        await purge(self._bus, self._bus.streams.pushes, self._bus.subjects.pushes_of_task(key))

    async def tasks(self) -> dict[TaskKey, set[str]]:
        """Return the tokens of all webhooks by task."""
        found: dict[TaskKey, set[str]] = {}
        for name in await self._bucket.keys():
            match name.split("."):
                case [tenant, agent, task, token] if is_task_id(task):
                    found.setdefault(TaskKey(tenant, agent, task), set()).add(token)
        return found

    async def wake(self, key: TaskKey, token: str) -> None:
        """Have task state look whether the webhook is to be told something."""
        await store_surely(self._bus, self._bus.subjects.push(key, token), b"{}")

    async def _check_room(self, key: TaskKey) -> None:
        if len(await self._bucket.under(_name(key, "*"))) >= MOST_PER_TASK:
            raise TooManyWebhooks(f"a task may have {MOST_PER_TASK} push notification configs")


def _name(key: TaskKey, token: str) -> str:
    # With the agent: another agent's worker may write a log under the task's id.
    return f"{key.tenant}.{key.agent}.{key.task}.{token}"


def _decode(key: TaskKey, data: bytes) -> Webhook:
    return Webhook.decode(f"webhook of {key.task}", data)
