"""Dead letters for undelivered notifications."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from headrace.jetstream.connection import Bus
from headrace.model.messages import BusMessage, DeadLetter
from headrace.model.task import TaskKey
from headrace.tasks.dead_letters import write_letter
from headrace.webhooks import Webhook
from headrace_task_state.webhooks.notice import notice_id

BODY_MOST = 500_000
"""Maximum bytes of a notification in a letter; in base64, it must fit a bus message."""


class UndeliveredNotification(BusMessage):
    """An undelivered notification, in a form that can be sent again."""

    log: str
    generation: int
    """Generation of its last event."""
    event: dict[str, Any]
    """The StreamResponse."""


class UndeliveredLetters:
    """Puts undelivered notifications into the dead-letter stream."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`."""
        self._bus = bus

    async def send(
        self,
        key: TaskKey,
        webhook: Webhook,
        token: str,
        undelivered: UndeliveredNotification,
        reason: str,
    ) -> None:
        """Store the letter and return.

        Raises:
            BusUnavailable: the letter is not stored, or the outcome is unknown.
        """
        body = undelivered.encode()
        if len(body) > BODY_MOST:
            reason = f"{reason} (the notification of {len(body)} bytes is not stored)"
            body = b""
        letter = DeadLetter(
            reason=f"{webhook.address.url.partition('?')[0]}: {reason}",
            # A notification published on this subject again gets one more attempt.
            subject=self._bus.subjects.push(key, token, undelivered.generation),
            task=key.task,
            body=b64encode(body).decode(),
            at=datetime.now(UTC).isoformat(),
        )
        name = f"push.{notice_id(undelivered.log, undelivered.generation, webhook.id)}"
        await write_letter(self._bus, letter, name)
