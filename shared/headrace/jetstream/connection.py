"""A connection to NATS with the operations that the bus contract requires."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import nats.errors
from nats.aio.client import NO_RESPONDERS_STATUS
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.aio.transport import Transport
from nats.errors import MaxPayloadError
from nats.js import JetStreamContext

from headrace import metrics
from headrace.jetstream.client import Listening, NatsClient, in_domain
from headrace.jetstream.credentials import NatsCredentials
from headrace.jetstream.denials import Denials
from headrace.jetstream.headers import STATUS
from headrace.jetstream.health_probe import PROBE_TIMING, ProbeTiming
from headrace.jetstream.streams import Streams, ensure_streams
from headrace.model.errors import BusUnavailable, DeniedByNats, EventTooLarge, NobodyListens
from headrace.secret_settings import SecretUnreadable
from headrace.server_versions import NATS_MINIMUM, check_server_version
from headrace.settings import BusSettings, without_credentials
from headrace.wait_for import reason, wait_for

_log = logging.getLogger(__name__)

NO_ANSWER = (
    nats.errors.TimeoutError,
    nats.errors.NoRespondersError,
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.ConnectionDrainingError,
    nats.errors.OutboundBufferLimitError,
    nats.errors.StaleConnectionError,
    nats.errors.BadSubscriptionError,
    OSError,
)
"""Errors of nats-py after which a request may or may not have been carried out."""

INBOX = "_INBOX"
"""First token of the subjects of answers; the role of who asks follows it."""


@dataclass(frozen=True, slots=True)
class BusTiming:
    """All in seconds."""

    connect_attempt: float = 2.5
    """After which a connection attempt is restarted. nats-py would continue silently for ever."""
    settle: float = 0.1
    """Within which disturbances count as one: nats-py reports every dropped message."""
    close: float = 2.0
    """Maximum to close the connection. nats-py would wait 30 s for a silent server."""
    ack: float = 2.0
    """For the acknowledgement of an append, after which its outcome counts as unknown."""
    leader: float = 1.0
    """For one answer of a stream's leader. An idle leader takes 0.2 ms. Requests sent while no
    leader exists are never answered, so this time is lost after an election."""
    replica_silence: float = 0.5
    """Without a message of a direct get, after which its replica is given up: what a frozen one
    costs."""
    retry: float = 0.1
    """Between repetitions of a request that was not answered."""
    confirmation: float = 0.5
    """Until a leader is asked again whether a log ends too early."""
    deposition: float = 0.1
    """Within which a leader that was frozen is informed of its successor, once it runs again."""
    probe: ProbeTiming = PROBE_TIMING
    """When the server is probed."""


TIMING = BusTiming()

type OnDisturbance = Callable[[], None]

type OnClosed = Callable[[BusUnavailable], None]

type NewTransport = Callable[[], Transport]
"""Makes the transport of a connection."""


class Bus:
    """One connection, its subjects and its streams.

    Followers of logs register with `on_disturbance`. The callback runs after a reconnect and after
    a slow-consumer error, when live messages may have been missed.

    A message that with its headers exceeds the server's maximum is refused with EventTooLarge.
    """

    def __init__(
        self,
        settings: BusSettings,
        new_transport: NewTransport | None = None,
        timing: BusTiming = TIMING,
    ) -> None:
        """Create a bus; `connect` connects it.

        Connections use a transport of `new_transport`. None: they use TCP, as `settings` say.
        """
        self.settings, self._new_transport, self.timing = settings, new_transport, timing
        self.subjects = settings.subjects
        self.streams = Streams(settings.stream_prefix)
        self._credentials = NatsCredentials(settings)
        self.connection = NatsClient()
        self._disturbed: set[OnDisturbance] = set()
        self._disturbing: asyncio.TimerHandle | None = None
        self._last_error: Exception | None = None
        self._refusal, self._denials = "", Denials()
        self._closing = False
        self._closed: BusUnavailable | None = None
        self._on_closed_callbacks = list[OnClosed]()

    @property
    def js(self) -> JetStreamContext:
        """JetStream on this connection."""
        return self.connection.jetstream()

    @property
    def connected(self) -> bool:
        """Whether a server is connected right now."""
        return self.connection.is_connected

    @property
    def answers(self) -> bool:
        """Whether the server is connected and not known to be silent."""
        return self.connected and not self.connection.health.is_silent and self._closed is None

    @property
    def back_since(self) -> float:
        """When a server last answered again after a silence, in loop time (seconds)."""
        return self.connection.health.back_since

    @property
    def max_payload(self) -> int:
        """Maximum size of a message in bytes."""
        return self.connection.max_payload

    @property
    def has_only_copies(self) -> bool:
        """Whether any copy of a stream that answers is its leader's, as there is only one.

        As long as no mirror has answered; see `direct_get`.
        """
        return self.connection.has_only_copies

    def note_mirror(self, stream: str) -> None:
        """Take note that a mirror has answered for `stream`: NATS has those beside it do so."""
        if self.has_only_copies:
            _log.info("stream %s has a mirror, so its leader is asked too from now on", stream)
        self.connection.note_mirror()

    def among_role(self, name: str) -> str:
        """Return a subject that only processes with this one's role can use."""
        return f"{INBOX}.{self.settings.role}.{name}"

    def on_disturbance(self, callback: OnDisturbance) -> Callable[[], None]:
        """Call `callback` when live messages may have been missed. Return its removal function."""
        self._disturbed.add(callback)
        return lambda: self._disturbed.discard(callback)

    def on_closed(self, callback: OnClosed) -> None:
        """Call `callback` once a connection is closed for good: nothing connects it again.

        It is called with the reason, at once if that has happened before.
        """
        self._on_closed_callbacks.append(callback)
        if self._closed is not None:
            callback(self._closed)

    def note_closed(self, why: Exception | None) -> None:
        """Take note that this connection, or one beside it, was closed for good."""
        if self._closing:
            return
        _log.error("the connection to NATS is closed permanently: %s", why)
        self._closed = BusUnavailable(f"the connection to NATS is closed permanently: {why}")
        for callback in self._on_closed_callbacks:
            callback(self._closed)

    async def connect(self, name: str) -> None:
        """Connect as `name`, with log messages while waiting, and create missing streams.

        Raises:
            BusUnavailable: NATS or JetStream did not answer within `startup_timeout`.
            SecretUnreadable: A key or certificate in the settings is unusable.
            ServerTooOld: The server is of an earlier version than the fleet works with.
            StreamsDiffer: The existing streams differ from the settings.
        """
        await self.dial(name)
        check_server_version("NATS", self.connection.server_version, NATS_MINIMUM)
        await wait_for(
            "JetStream",
            lambda: ensure_streams(self.js, self.settings),
            self.settings.startup_timeout,
        )

    async def dial(self, name: str) -> None:
        """Connect as `name`, with log messages while waiting. Streams are not checked.

        Raises:
            BusUnavailable: NATS did not answer within `startup_timeout`.
            SecretUnreadable: A key or certificate in the settings is unusable.
        """
        self._credentials.check()
        await wait_for(
            f"NATS at {without_credentials(self.settings.nats_url)}",
            lambda: self._connect(name),
            self.settings.startup_timeout,
        )

    async def _connect(self, name: str) -> None:
        transport = None if self._new_transport is None else self._new_transport()
        domain = self.settings.nats_jetstream_domain
        client = NatsClient(self._credentials, transport, domain, self.timing.probe)
        try:
            async with asyncio.timeout(self.timing.connect_attempt):
                await client.connect(**connect_options(self.settings, name), **self._callbacks())
        except TimeoutError:
            raise BusUnavailable(reason(self._last_error or TimeoutError())) from self._last_error
        finally:
            if not client.is_connected:
                await client.close()
        self.connection = client

    def _callbacks(self) -> dict[str, Any]:
        return {
            "reconnected_cb": self._on_reconnect,
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnect,
            "closed_cb": self._on_closed,
        }

    async def _on_disconnect(self) -> None:
        if self.connection.is_reconnecting:
            _log.warning("connection to NATS lost; reconnecting")

    async def _on_closed(self) -> None:
        # That of an attempt to connect is closed before it is this one's.
        if self.connection.is_closed:
            self.note_closed(self.connection.last_error)

    async def _on_reconnect(self) -> None:
        _log.info("reconnected to NATS")
        self._refusal = ""
        self._notify()

    async def _on_error(self, error: Exception) -> None:
        self._last_error = error
        self._denials.note(error)
        if isinstance(error, nats.errors.SlowConsumerError):
            self._notify_soon()
        elif type(error) is nats.errors.Error or isinstance(error, SecretUnreadable):
            # Log it once, not for each of four attempts per second.
            level = logging.DEBUG if str(error) == self._refusal else logging.WARNING
            self._refusal = str(error)
            _log.log(level, "NATS reported an error: %s", error)
        elif isinstance(error, (nats.errors.Error, OSError)):
            _log.debug("NATS: %s", reason(error))
        else:
            _log.error("a message could not be processed", exc_info=error)

    def _notify_soon(self) -> None:
        if self._disturbing is None:
            _log.warning("slow consumer: reading from the log instead")
            loop = asyncio.get_running_loop()
            self._disturbing = loop.call_later(self.timing.settle, self._notify)

    def _notify(self) -> None:
        self._disturbing = None
        metrics.DISTURBANCES.inc()
        for callback in list(self._disturbed):
            callback()

    async def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Publish a message without an ack.

        Raises:
            BusUnavailable: The connection is down, and the buffer for the next one is full.
            EventTooLarge: See the class.
        """
        try:
            await self.connection.publish(subject, payload, reply, headers)
        except MaxPayloadError as error:
            raise self._too_large(payload, headers) from error
        except NO_ANSWER as error:
            raise BusUnavailable(f"{subject}: {reason(error)}") from error

    async def subscribe(
        self, subject: str, receive: Callable[[Msg], Coroutine[Any, Any, None]]
    ) -> Subscription:
        """Call `receive` for every message on `subject`, sequentially.

        Raises:
            BusUnavailable: The connection is closed.
        """
        try:
            return await self.connection.subscribe(subject, cb=receive)
        except NO_ANSWER as error:
            raise BusUnavailable(f"{subject}: {reason(error)}") from error

    async def listen(self, subject: str, receive: Callable[[Msg], None]) -> Listening:
        """Call `receive` for every message on `subject` as it is read from the socket.

        This has the lowest latency and cost. No other message is read meanwhile, and none is
        dropped on this side of the socket.

        Raises:
            BusUnavailable: The connection is closed.
        """
        try:
            return await self.connection.listen(subject, receive)
        except NO_ANSWER as error:
            raise BusUnavailable(f"{subject}: {reason(error)}") from error

    @asynccontextmanager
    async def answering(self, subject: str) -> AsyncIterator[None]:
        """Answer requests on `subject` inside a block. The subject has no listener outside it."""

        async def reply(msg: Msg) -> None:
            with suppress(BusUnavailable):
                await self.publish(msg.reply, b"")

        subscription = None
        try:
            with suppress(BusUnavailable):
                subscription = await self.subscribe(subject, reply)
            yield
        finally:
            if subscription is not None:
                await self.unsubscribe(subscription)

    @staticmethod
    async def unsubscribe(subscription: Subscription) -> None:
        """End a subscription. Nothing happens if it ended with its connection."""
        with suppress(*NO_ANSWER):
            await subscription.unsubscribe()

    async def request(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Send a request and wait for one answer.

        Raises:
            NobodyListens: The subject has no listener.
            DeniedByNats: The user of this connection may not publish on the subject.
            BusUnavailable: No answer came within `timeout` seconds, or the connection is down.
            EventTooLarge: See the class.
        """
        began, connection = time.monotonic(), self.connection
        try:
            answer = None
            if subject.isprintable() and " " not in subject:  # Nothing else checks it.
                answer = connection.ask(subject, payload, headers or {}, timeout)
            if answer is None:
                return await connection.request(subject, payload, timeout=timeout, headers=headers)
            await answer
            return self.answered(subject, answer)
        except MaxPayloadError as error:
            raise self._too_large(payload, headers) from error
        except nats.errors.NoRespondersError as error:
            raise NobodyListens(f"{subject}: {reason(error)}") from error
        except NO_ANSWER as error:
            sent = in_domain(self.settings.nats_jetstream_domain, subject)
            if self._denials.of_publishing(sent, began):
                raise DeniedByNats(f"{subject}: NATS permissions forbid it") from error
            raise BusUnavailable(f"{subject}: {reason(error)}") from error

    async def check_answers(self) -> None:
        """Return once NATS lets this connection hear the answers to its requests.

        Raises:
            DeniedByNats: It does not: each request would wait for its answer in vain.
            BusUnavailable: NATS does not answer.
        """
        inbox, began = self.connection.new_inbox(), time.monotonic()
        listening = await self.listen(inbox, lambda _: None)
        try:
            await self.connection.flush()
        except NO_ANSWER as error:
            raise BusUnavailable(reason(error)) from error
        finally:
            listening.end()
        if self._denials.of_subscribing(inbox, began):
            raise DeniedByNats(f"NATS permissions forbid to subscribe to {inbox}")

    def ask(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str]
    ) -> asyncio.Future[Msg]:
        """Send a request before this returns, if possible, and return its answer to come.

        It takes less processor time than `request`. `answered` reads the answer.

        Raises:
            EventTooLarge: See the class.
        """
        try:
            answer = self.connection.ask(subject, payload, headers, timeout)
        except MaxPayloadError as error:
            raise self._too_large(payload, headers) from error
        if answer is not None:
            return answer
        return asyncio.Task(
            self.request(subject, payload, timeout, headers),
            loop=asyncio.get_running_loop(),
            eager_start=True,
        )

    def _too_large(self, payload: bytes, headers: Mapping[str, str] | None) -> EventTooLarge:
        size = sum(len(name) + len(value.encode()) for name, value in (headers or {}).items())
        return EventTooLarge(len(payload) + size, self.max_payload)

    async def ask_for_series(
        self, subject: str, payload: bytes, receive: Callable[[Msg], None]
    ) -> Callable[[], None]:
        """Send a request, call `receive` with each of its answers, and return what ends that.

        Raises:
            BusUnavailable: There is no connection.
        """
        connection = self.connection
        try:
            serial = await connection.ask_for_series(subject, payload, receive)
        except NO_ANSWER as error:
            raise BusUnavailable(f"{subject}: {reason(error)}") from error
        return partial(connection.end_series, serial)

    @staticmethod
    def answered(subject: str, answer: asyncio.Future[Msg]) -> Msg:
        """Return the answer of `ask`, which is done.

        Raises:
            NobodyListens, BusUnavailable: As `request`.
        """
        try:
            msg = answer.result()
        except NO_ANSWER as error:
            raise BusUnavailable(f"{subject}: {reason(error)}") from error
        if msg.headers is not None and msg.headers.get(STATUS) == NO_RESPONDERS_STATUS:
            raise NobodyListens(f"{subject}: {reason(nats.errors.NoRespondersError())}")
        return msg

    async def close(self) -> None:
        """Send buffered data and close the connection, in bounded time even if NATS is frozen."""
        self._closing = True
        if self.connection.is_connected:
            await _at_most(self.timing.close, self.connection.drain())
        if not self.connection.is_closed:
            await _at_most(self.timing.close, self.connection.close())


async def _at_most(seconds: float, step: Coroutine[Any, Any, None]) -> None:
    """Run `step` for at most `seconds`. A cancelled `drain` may continue, so it is not awaited."""
    task = asyncio.ensure_future(step)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait({task}, timeout=seconds)
    task.cancel()


def connect_options(settings: BusSettings, name: str) -> dict[str, Any]:
    """Return the options of every connection of the fleet, except its credentials."""
    return {
        "servers": settings.nats_servers,
        "name": name,
        # This lets a user's permissions cover the answers to its own role's requests only.
        "inbox_prefix": f"{INBOX}.{settings.role}",
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 0.25,
        "connect_timeout": 2,
        "allow_reconnect": True,
        "tls_handshake_first": settings.nats_tls_first,
    }
