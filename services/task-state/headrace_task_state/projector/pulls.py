"""Asking a consumer for messages: always some asked for, never more than fit."""

import orjson

from headrace.jetstream.connection import Bus

HEARTBEAT = 1.0
"""Seconds of silence after which a consumer with nothing to hand out says that it is there."""

WINDOW = 2000
"""Messages that may be asked for or lie untaken."""

_BATCH = 500
_BYTES = 16 * 1024 * 1024
"""Of one pull; at least one message of the largest kind must fit."""

_EXPIRES = 20.0
_SECOND = 1_000_000_000

_PENDING = "Nats-Pending-Messages"


class Pulls:
    """Keeps pull requests going, each answered by up to a batch of messages, or by its end."""

    def __init__(self, bus: Bus, subject: str, inbox: str) -> None:
        """Pull from the consumer behind `subject` into `inbox`."""
        self._bus, self._subject, self._inbox = bus, subject, inbox
        self._asked_for = 0
        self._request = orjson.dumps(
            {
                "batch": _BATCH,
                "max_bytes": max(_BYTES, 2 * bus.max_payload),
                "expires": round(_EXPIRES * _SECOND),
                "idle_heartbeat": round(HEARTBEAT * _SECOND),
            }
        )

    async def top_up(self, untaken: int) -> None:
        """Ask for more if there is room beside `untaken` messages.

        Raises:
            BusUnavailable: there is no connection.
        """
        while self._asked_for + untaken + _BATCH <= WINDOW:
            self._asked_for += _BATCH
            await self._bus.publish(self._subject, self._request, self._inbox)

    @property
    def waiting(self) -> bool:
        """Whether a request is out that may still be answered."""
        return self._asked_for > 0

    def delivered(self) -> None:
        """Take note of a message that came."""
        self._asked_for -= 1

    @staticmethod
    def only_ended(headers: dict[str, str]) -> bool:
        """Tell whether a status ends one pull, and not the consumer."""
        return _PENDING in headers

    def ended(self, headers: dict[str, str]) -> None:
        """Take note of a pull's end: it had expired, or the next message did not fit."""
        self._asked_for -= int(headers[_PENDING])
