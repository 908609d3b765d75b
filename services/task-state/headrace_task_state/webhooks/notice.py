"""A notification to send, why a webhook did not accept it, and the dead letter it becomes then."""

from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError
from headrace.model.messages import BusMessage, DeadLetter
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey
from headrace.tasks.dead_letters import write_letter
from headrace.webhooks import TaskWebhook


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification to send."""

    task: str
    id: str
    """The same for every attempt, so that a receiver can detect duplicates."""
    body: bytes
    attempt: int
    traceparent: str | None = None
    """W3C trace context of the request that it answers."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    reason: str
    is_final: bool = False
    """Whether retrying is pointless."""
    is_passing: bool = False
    """Whether there is no receiver for it, as while a stream elects its leader."""
    is_gone: bool = False
    """Whether the receiver answered that it accepts no more notifications."""
    wait: float = 0.0
    """Minimum seconds that the receiver asked to wait."""


def notice_id(log: str, generation: int, webhook: str) -> str:
    """Return the id, for one webhook, of the notification that ends with that event of the log."""
    return f"{log}:{generation}:{encode_token(webhook)}"


class NotConvertible(HeadraceError):
    """The event can't be represented in 0.3."""

    code = "unsayable"


class UndeliveredNotification(BusMessage):
    """An undelivered notification, in a form that can be sent again."""

    log: str
    generation: int
    """Generation of its last event."""
    event: dict[str, Any]
    """The StreamResponse."""
    traceparent: str | None = None
    """W3C trace context of the request that it answers."""
    attempts: int = 0
    """Attempts since an operator retried it."""
    due: float = 0.0
    """Time of the next one, in seconds since 1970."""


class UndeliveredLetters:
    """Puts undelivered notifications into the dead-letter stream."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`."""
        self._bus = bus

    async def send(
        self,
        key: TaskKey,
        webhook: TaskWebhook,
        token: str,
        undelivered: UndeliveredNotification,
        reason: str,
        *,
        retried: int = 0,
    ) -> None:
        """Store the letter and return.

        `retried` is the sequence of the message by which an operator has retried an earlier letter:
        without it in the name, NATS would take this letter for that one for two minutes.

        Raises:
            BusUnavailable: the letter is not stored, or the outcome is unknown.
        """
        letter = DeadLetter(
            reason=f"{webhook.address.url.partition('?')[0]}: {reason}",
            # A notification published on this subject again gets one more attempt.
            subject=self._bus.subjects.push(key, token, undelivered.generation),
            task=key.task,
            body=b64encode(undelivered.encode()).decode(),
            at=datetime.now(UTC).isoformat(),
        )
        name = f"push.{notice_id(undelivered.log, undelivered.generation, webhook.id)}.{retried}"
        await write_letter(self._bus, letter, name)
