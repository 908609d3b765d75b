"""Consumers: made, listed, pulled from, and how a message that they deliver is answered."""

import asyncio
from typing import NamedTuple

import orjson

from headrace.jetstream.api import Json, request
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import PENDING_REQUEST

ACK = b"+ACK"
"""The message is done with."""
TERM = b"+TERM"
"""The message is never to be delivered again."""
IN_PROGRESS = b"+WPI"
"""The message is being worked on: the time to acknowledge it begins anew."""

HEARTBEAT = 1.0
"""Seconds of silence after which a consumer with nothing to hand out says that it is there."""

WINDOW = 2000
"""Messages that may be asked for or lie untaken."""

_BATCH = 500
_BYTES = 16 * 1024 * 1024
"""Of one pull; at least one message of the largest kind must fit."""

_EXPIRES = 20.0
_LONG = 600.0
"""Seconds that a pull waits which is not to end before it is answered."""

_LEAST = 64

_SHORT_HEARTBEAT = 0.25
"""Seconds between heartbeats where somebody waits for them."""
_SECOND = 1_000_000_000
_TIMEOUT = 2.0
_SHORT_REPLY = 9
_DOMAIN_AND_ACCOUNT = 2


class Delivery(NamedTuple):
    """What the reply subject of a delivered message says."""

    sequence: int
    """In the stream."""
    number: int
    """How many messages the consumer has handed out, this one included."""
    time: int
    """When NATS stored it, nanoseconds since 1970."""


def nak(seconds: float = 0.0) -> bytes:
    """Return the answer that has a message delivered again, at once or in `seconds`."""
    return b'-NAK {"delay": %d}' % round(seconds * _SECOND) if seconds else b"-NAK"


def delivery(reply: str) -> Delivery:
    """Read ``$JS.ACK[.domain.account].stream.consumer.delivered.sequence.number.time.pending``.

    Raises:
        ValueError: the reply subject is not of that form.
    """
    tokens = reply.split(".")
    at = 5 if len(tokens) == _SHORT_REPLY else 5 + _DOMAIN_AND_ACCOUNT
    try:
        return Delivery(int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 2]))
    except IndexError:
        raise ValueError(f"{reply} is no reply subject of a consumer") from None


def pull_subject(stream: str, consumer: str) -> str:
    """Return where messages are asked for."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def pull_request(batch: int, expires: float = 0.0, **limits: int) -> bytes:
    """Return a request for `batch` messages that waits `expires` seconds; 0: it does not wait."""
    wait = {"expires": round(expires * _SECOND)} if expires else {"no_wait": True}
    return orjson.dumps({"batch": batch, **limits, **wait})


async def consumer_info(bus: Bus, stream: str, name: str, timeout: float = _TIMEOUT) -> Json:
    """Return JetStream's ConsumerInfo.

    Raises:
        Refused: there is no such consumer, or it may not be looked at.
        BusUnavailable: JetStream does not answer.
    """
    return await request(bus, f"CONSUMER.INFO.{stream}.{name}", timeout=timeout)


async def consumers(bus: Bus, stream: str, timeout: float = _TIMEOUT) -> list[Json]:
    """Return JetStream's ConsumerInfo of every consumer of a stream, within `timeout` seconds.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    return await _all(bus, f"CONSUMER.LIST.{stream}", timeout)


async def consumer_names(bus: Bus, stream: str, timeout: float = _TIMEOUT) -> list[str]:
    """Return the name of every consumer of a stream.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    return await _all(bus, f"CONSUMER.NAMES.{stream}", timeout)


async def _all[Item](bus: Bus, operation: str, timeout: float) -> list[Item]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    found, read, total = list[Item](), 0, 1
    while read < total:
        left = max(deadline - loop.time(), 0.01)
        page = await request(bus, operation, {"offset": read}, left)
        total, some = page["total"], page["consumers"] or []
        found += some
        read += max(len(some), 1)
    return found


async def create_consumer(bus: Bus, stream: str, name: str, config: Json) -> Json:
    """Make an ephemeral consumer and return its ConsumerInfo.

    Raises:
        BusUnavailable: JetStream does not answer, or refuses.
    """
    query = {"stream_name": stream, "config": {"name": name, **config}}
    return await request(bus, f"CONSUMER.CREATE.{stream}.{name}", query, _TIMEOUT)


async def delete_consumer(bus: Bus, stream: str, name: str) -> None:
    """Delete a consumer, without waiting for JetStream to do so.

    Raises:
        BusUnavailable: there is no connection.
    """
    await bus.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}", b"")


class Pulls:
    """Keeps pull requests going, each answered by up to a batch of messages, or by its end."""

    def __init__(
        self, bus: Bus, stream: str, consumer: str, inbox: str, *, last_per_subject: bool = False
    ) -> None:
        """Pull from `consumer` of `stream` into `inbox`.

        A consumer of the last message of each subject steps over one for which the last pull has
        ended (nats-server 2.15), so its pulls have no bytes that could be used up, and wait long.
        """
        self._bus, self._subject, self._inbox = bus, pull_subject(stream, consumer), inbox
        self._asked_for = self._count = self._size = 0
        self._sized = last_per_subject
        heartbeat = round((_SHORT_HEARTBEAT if last_per_subject else HEARTBEAT) * _SECOND)
        if last_per_subject:
            self._batch = _LEAST
            self._request = pull_request(_LEAST, _LONG, idle_heartbeat=heartbeat)
        else:
            self._batch = _BATCH
            most_bytes = max(_BYTES, 2 * bus.max_payload)
            self._request = pull_request(
                _BATCH, _EXPIRES, max_bytes=most_bytes, idle_heartbeat=heartbeat
            )

    @property
    def _window(self) -> int:
        """How many messages may be asked for or lie untaken; large ones are fewer."""
        if not self._sized:
            return WINDOW
        usual = (self._size + _BYTES) // (self._count + 1)
        return min(max(_BYTES // max(usual, 1), _LEAST), WINDOW)

    async def top_up(self, untaken: int) -> None:
        """Ask for more if there is room beside `untaken` messages.

        Raises:
            BusUnavailable: there is no connection.
        """
        while self._asked_for + untaken + self._batch <= self._window:
            self._asked_for += self._batch
            await self._bus.publish(self._subject, self._request, self._inbox)

    @property
    def waiting(self) -> bool:
        """Whether a request is out that may still be answered."""
        return self._asked_for > 0

    def delivered(self, size: int) -> None:
        """Take note of a message of `size` bytes that came."""
        self._asked_for -= 1
        self._count += 1
        self._size += size

    @staticmethod
    def only_ended(headers: dict[str, str]) -> bool:
        """Tell whether a status ends one pull, and not the consumer."""
        return PENDING_REQUEST in headers

    def ended(self, headers: dict[str, str]) -> None:
        """Take note of a pull's end: it had expired, or the next message did not fit."""
        self._asked_for -= int(headers[PENDING_REQUEST])
