"""Pull subscriptions that wait after a failure.

FastStream pulls again at once: while a consumer has no leader, or is gone, that is a loop of
thousands of requests per second.
"""

import asyncio
import logging
from typing import Any, Protocol, override

from nats.aio.msg import Msg
from nats.errors import Error, TimeoutError  # noqa: A004 - nats-py's own, which FastStream expects
from nats.js import JetStreamContext

_log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds after a failure."""


class PullSource(Protocol):
    """The part of nats-py's pull subscription that FastStream uses."""

    async def fetch(self, batch: int, timeout: float | None, /) -> list[Msg]:
        """Return messages as soon as there are some."""

    async def unsubscribe(self) -> None:
        """End the subscription."""


class PacedPulls:
    """Pulls from a source, and pauses when that fails."""

    def __init__(self, source: PullSource, subject: str, pause: float = PAUSE) -> None:
        """Pull messages on `subject` from `source`; wait `pause` seconds after each failure."""
        self._source, self._subject, self._pause = source, subject, pause
        self._is_failing = False

    async def fetch(self, batch: int = 1, timeout: float | None = 5) -> list[Msg]:
        """Return messages; none after a failure.

        Raises:
            TimeoutError: There were none within `timeout` seconds.
        """
        try:
            messages = await self._source.fetch(batch, timeout)
        except TimeoutError:
            self._is_failing = False
            raise
        except Error as error:
            if not self._is_failing:
                _log.warning("%s: no messages can be pulled now: %r", self._subject, error)
            self._is_failing = True
            await asyncio.sleep(self._pause)
            return []
        self._is_failing = False
        return messages

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._source.unsubscribe()


class PacedJetStream(JetStreamContext):
    """A JetStream context whose pull subscriptions are paced.

    A missing consumer is made with the filter of its `config`, whatever the subject.
    """

    @override
    async def pull_subscribe(self, subject: str, *more: Any, **options: Any) -> Any:
        config = options.get("config")
        subject = (config and config.filter_subject) or subject
        return PacedPulls(await super().pull_subscribe(subject, *more, **options), subject)
