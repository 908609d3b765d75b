"""Pull subscriptions that wait after a failure, and make a consumer again that is gone.

FastStream pulls again at once: while a consumer has no leader, or is gone, that is a loop of
thousands of requests per second. A consumer is gone if somebody deleted it, or its stream.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, override

from nats.aio.msg import Msg
from nats.errors import Error
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError, ServiceUnavailableError

from headrace.jetstream.client import NatsClient
from headrace.jetstream.pull_requests import PullRequests

_log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds after a failure."""


class PullSource(Protocol):
    """What FastStream uses of a pull subscription."""

    async def fetch(self, batch: int, timeout: float | None, /) -> list[Msg]:
        """Return messages as soon as there are some, or none in the end."""

    async def consumer_info(self) -> object:
        """Return the state of its consumer."""

    async def unsubscribe(self) -> None:
        """End the subscription."""


type Make = Callable[[], Awaitable[object]]
"""Makes the consumer."""


class PacedPulls:
    """Pulls from a source, and pauses when that fails."""

    def __init__(self, source: PullSource, subject: str, make: Make, pause: float = PAUSE) -> None:
        """Pull messages on `subject` from `source`; wait `pause` seconds after each failure.

        `make` makes its consumer if that is gone.
        """
        self._source, self._subject, self._make, self._pause = source, subject, make, pause
        self.problem = ""
        """Why no messages can be pulled; empty: they can."""

    async def fetch(self, batch: int = 1, timeout: float | None = 5) -> list[Msg]:
        """Return messages; none after a failure, or if none came within `timeout` seconds."""
        try:
            messages = await self._source.fetch(batch, timeout)
        except Error as error:
            if not self.problem:
                _log.warning("%s: no messages can be pulled now: %r", self._subject, error)
                is_silent = isinstance(error, ServiceUnavailableError)
                self.problem = "its consumer does not answer" if is_silent else str(error)
            await asyncio.sleep(self._pause)
            await self._make_if_gone()
            return []
        self.problem = ""
        return messages

    async def _make_if_gone(self) -> None:
        try:
            await self._source.consumer_info()
        except NotFoundError:
            try:
                await self._make()
            except Error as error:
                self.problem = str(error)
            else:
                _log.warning("%s: its consumer was gone, and is made again", self._subject)
        except Error as error:
            self.problem = str(error)

    async def unsubscribe(self) -> None:
        """End the subscription."""
        await self._source.unsubscribe()


class PacedJetStream(JetStreamContext):
    """A JetStream context whose pull subscriptions are paced.

    A missing consumer is made with the filter of its `config`, whatever the subject.
    """

    def __init__(self, client: NatsClient, **options: Any) -> None:  # noqa: ANN401  # nats-py's
        """Pull with `client`; `options` are nats-py's."""
        super().__init__(client, **options)
        self._client = client

    @override
    async def pull_subscribe(self, subject: str, *more: Any, **options: Any) -> Any:
        config = options.get("config")
        subject = (config and config.filter_subject) or subject
        source = await super().pull_subscribe(subject, *more, **options)
        return PacedPulls(source, subject, partial(self.add_consumer, options["stream"], config))

    @override
    async def pull_subscribe_bind(self, *_: object, **options: Any) -> Any:
        """Listen for the messages of a consumer that exists."""
        inbox = options["inbox_prefix"].decode() + secrets.token_hex(8)
        source = PullRequests(self._client, options["stream"], options["name"], inbox)
        await source.start()
        return source
