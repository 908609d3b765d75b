"""A connection to NATS and what the bus contract needs of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from headrace.errors import BusUnavailable
from headrace.settings import BusSettings
from headrace.streams import Streams, ensure_streams

_log = logging.getLogger(__name__)

PENDING_BYTES = 64 * 1024 * 1024
"""A subscription that lags further than this loses messages, and is told (slow consumer)."""

TROUBLE = (
    nats.errors.TimeoutError,
    nats.errors.NoRespondersError,
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.ConnectionDrainingError,
    nats.errors.OutboundBufferLimitError,
    nats.errors.StaleConnectionError,
    ConnectionError,
)
"""What nats-py raises when a request may or may not have been carried out."""

type Disturbed = Callable[[], None]


class Bus:
    """One connection, its subjects and its streams.

    Whoever follows logs registers with `on_disturbance`: it is called after a reconnect and after
    a slow-consumer error, the two moments at which live messages may have been missed.
    """

    def __init__(self, settings: BusSettings) -> None:
        """Prepare; `connect` does the work."""
        self.settings = settings
        self.subjects = settings.subjects
        self.streams = Streams(settings.stream_prefix)
        self.connection = Client()
        self._disturbed: set[Disturbed] = set()

    @property
    def js(self) -> JetStreamContext:
        """JetStream on this connection."""
        return self.connection.jetstream()

    @property
    def connected(self) -> bool:
        """Whether a server is connected right now."""
        return self.connection.is_connected

    @property
    def max_payload(self) -> int:
        """The largest message the server takes, bytes."""
        return self.connection.max_payload

    def on_disturbance(self, callback: Disturbed) -> Callable[[], None]:
        """Call `callback` whenever live messages may have been missed; returns how to stop that."""
        self._disturbed.add(callback)
        return lambda: self._disturbed.discard(callback)

    async def connect(self, name: str) -> None:
        """Connect as `name`, waiting and saying so, and make missing streams.

        Raises:
            BusUnavailable: NATS or JetStream was not there within `startup_timeout`.
        """
        await patiently(
            f"NATS at {self.settings.nats_url}",
            lambda: self._connect(name),
            self.settings.startup_timeout,
        )
        await patiently(
            "JetStream",
            lambda: ensure_streams(self.js, self.settings),
            self.settings.startup_timeout,
        )

    async def _connect(self, name: str) -> None:
        await self.connection.connect(**connect_options(self.settings, name), **self._callbacks())

    def _callbacks(self) -> dict[str, Any]:
        return {
            "reconnected_cb": self._on_reconnect,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnect,
        }

    async def _on_disconnect(self) -> None:
        _log.warning("lost NATS; reconnecting")

    async def _on_reconnect(self) -> None:
        _log.info("NATS is back")
        self._disturb()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            _log.warning("a subscription lagged too far; reading from the log instead")
            self._disturb()
        else:
            _log.debug("NATS: %s", error)

    def _disturb(self) -> None:
        for callback in list(self._disturbed):
            callback()

    async def request(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Ask and wait for one answer.

        Raises:
            BusUnavailable: no answer within `timeout` seconds, nobody listens, or no connection.
        """
        try:
            return await self.connection.request(subject, payload, timeout=timeout, headers=headers)
        except TROUBLE as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error

    async def close(self) -> None:
        """Send what is buffered and hang up."""
        if self.connection.is_closed or not self.connection.is_connected:
            await self.connection.close()
            return
        await self.connection.drain()


def connect_options(settings: BusSettings, name: str) -> dict[str, Any]:
    """Return what every connection of the fleet is opened with."""
    return {
        "servers": settings.nats_servers,
        "name": name,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 0.25,
        "connect_timeout": 2,
        "allow_reconnect": True,
        "ping_interval": 10,
        "max_outstanding_pings": 2,
    }


async def patiently(what: str, attempt: Callable[[], Awaitable[None]], patience: float) -> None:
    """Call `attempt` until it succeeds, saying what is waited for, at most `patience` seconds.

    Raises:
        BusUnavailable: it did not succeed in time; the last failure is its cause.
    """
    loop = asyncio.get_running_loop()
    deadline, said = loop.time() + patience, False
    while True:
        try:
            return await asyncio.wait_for(attempt(), max(deadline - loop.time(), 0.1))
        except (nats.errors.Error, OSError, TimeoutError, BusUnavailable) as error:
            if loop.time() + 0.5 > deadline:
                message = f"{what} did not answer within {patience:g} s: {_reason(error)}"
                raise BusUnavailable(message) from error
            if not said:
                _log.warning("waiting for %s: %s", what, _reason(error))
                said = True
        await asyncio.sleep(0.5)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
