"""Dead letters for what a webhook did not take."""

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from headrace.jetstream.connection import Bus
from headrace.model.messages import BusMessage, DeadLetter
from headrace.model.task import TaskKey
from headrace.tasks.dead_letters import write_letter
from headrace.webhooks import Webhook
from headrace_task_state.webhooks.attempt import notice_id

BODY_MOST = 500_000
"""Bytes of a notification that a letter carries; base64 must fit a bus message with it."""


class Undelivered(BusMessage):
    """What was not taken, as it can be sent again."""

    log: str
    generation: int
    """Of its last event."""
    event: dict[str, Any]
    """The StreamResponse."""


class UndeliveredLetters:
    """Puts them into the dead-letter stream."""

    def __init__(self, bus: Bus) -> None:
        """Use `bus`."""
        self._bus = bus

    async def send(
        self, key: TaskKey, webhook: Webhook, token: str, undelivered: Undelivered, reason: str
    ) -> None:
        """Return once the letter is stored.

        Raises:
            BusUnavailable: it is not, or not for certain.
        """
        body = undelivered.encode()
        if len(body) > BODY_MOST:
            reason = f"{reason} (the notification has {len(body)} bytes and is not kept)"
            body = b""
        letter = DeadLetter(
            reason=f"{webhook.address.url.partition('?')[0]}: {reason}",
            # Sent there once more, it is tried once more.
            subject=self._bus.subjects.push(key, token, undelivered.generation),
            task=key.task,
            body=b64encode(body).decode(),
            at=datetime.now(UTC).isoformat(),
        )
        name = f"push.{notice_id(undelivered.log, undelivered.generation, webhook.id)}"
        await write_letter(self._bus, letter, name)
