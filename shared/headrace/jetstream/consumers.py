"""Consumers: create, list and pull from them, and acknowledge their messages."""

import asyncio
from typing import NamedTuple

import orjson

from headrace.jetstream.api import Json, request
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import PENDING_REQUEST, STATUS

ACK = b"+ACK"
"""The message is processed."""
TERM = b"+TERM"
"""The message must not be delivered again."""
IN_PROGRESS = b"+WPI"
"""The message is in progress: its ack timeout restarts."""

HEARTBEAT = 1.0
"""Seconds of silence after which a consumer without messages sends a heartbeat."""

WINDOW = 2000
"""Maximum number of messages that are requested or not yet processed."""

_BATCH = 500
"""Minimum messages of a pull. Each pull that waits has heartbeats of its own, so one asks for all
that the window has room for."""
_BYTES = 16 * 1024 * 1024
"""Maximum bytes of one pull. At least one message of the maximum size must fit."""

_EXPIRES = 20.0
_LONG = 600.0
"""Seconds that a pull waits if it should not end before it is answered."""

_LEAST = 64

_SHORT_HEARTBEAT = 0.25
"""Seconds between heartbeats if a caller waits for them."""
_NO_MORE, _TOO_LARGE = "404", "409"
"""How a pull ends that does not wait: with all that is there, or before a message."""

_SECOND = 1_000_000_000
_TIMEOUT = 2.0
_SHORT_REPLY = 9
"""Tokens of a reply subject without domain and account."""
_SEQUENCE, _SEQUENCE_BEHIND_ACCOUNT = 5, 7
"""Where a reply subject has the sequence."""


class Delivery(NamedTuple):
    """The data in the reply subject of a delivered message."""

    sequence: int
    """Sequence in the stream."""
    number: int
    """Number of messages that the consumer has delivered, including this one."""
    time: int
    """When NATS stored it, in nanoseconds since 1970."""


def nak(seconds: float = 0.0) -> bytes:
    """Return the answer that requests redelivery, immediately or after `seconds`.

    With `seconds`, it is a lease of that length: until then, the receiver may acknowledge the
    message or answer again, `IN_PROGRESS` included, and the last answer counts.
    """
    return b'-NAK {"delay": %d}' % round(seconds * _SECOND) if seconds else b"-NAK"


def delivery(reply: str) -> Delivery:
    """Read ``$JS.ACK[.domain.account].stream.consumer.delivered.sequence.number.time.pending``.

    Raises:
        ValueError: the reply subject is not of that form.
    """
    tokens = reply.split(".")
    at = _SEQUENCE if len(tokens) == _SHORT_REPLY else _SEQUENCE_BEHIND_ACCOUNT
    try:
        # Its own constructor, which is a function in Python, takes three times as long.
        return tuple.__new__(Delivery, (int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 2])))
    except IndexError:
        raise ValueError(f"{reply} is not a consumer's reply subject") from None


def queue_of(reply: str) -> tuple[str, str]:
    """Return the stream and the consumer that the reply subject of a delivered message names.

    Raises:
        ValueError: it is not of the form that `delivery` reads, and may be any other subject.
    """
    delivery(reply)
    if not reply.startswith("$JS.ACK."):
        raise ValueError(f"{reply} is not a consumer's reply subject")
    tokens = reply.split(".")
    at = _SEQUENCE if len(tokens) == _SHORT_REPLY else _SEQUENCE_BEHIND_ACCOUNT
    return tokens[at - 3], tokens[at - 2]


def reply_subject(stream: str, consumer: str, sequence: int, number: int) -> str:
    """Return a subject for answers to the message with `sequence`, which the consumer delivered.

    `number`: of messages that the consumer has delivered. If the message is not in delivery, an
    answer has no effect.
    """
    return f"$JS.ACK.{stream}.{consumer}.1.{sequence}.{number}.0.0"


def pull_subject(stream: str, consumer: str) -> str:
    """Return the subject of pull requests."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def pull_request(batch: int, expires: float = 0.0, **limits: int) -> bytes:
    """Return a request for `batch` messages that waits `expires` seconds; 0: no wait."""
    wait = {"expires": round(expires * _SECOND)} if expires else {"no_wait": True}
    return orjson.dumps({"batch": batch, **limits, **wait})


async def consumer_info(bus: Bus, stream: str, name: str, timeout: float = _TIMEOUT) -> Json:
    """Return JetStream's ConsumerInfo.

    Raises:
        Refused: The consumer does not exist, or this process may not read it.
        BusUnavailable: JetStream does not answer.
    """
    return await request(bus, f"CONSUMER.INFO.{stream}.{name}", timeout=timeout)


async def consumers(bus: Bus, stream: str, timeout: float = _TIMEOUT) -> list[Json]:
    """Return JetStream's ConsumerInfo of every consumer of a stream, within `timeout` seconds.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    return await _all(bus, f"CONSUMER.LIST.{stream}", timeout)


async def consumer_names(bus: Bus, stream: str) -> list[str]:
    """Return the name of every consumer of a stream.

    Raises:
        BusUnavailable: JetStream does not answer.
    """
    return await _all(bus, f"CONSUMER.NAMES.{stream}", _TIMEOUT)


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
    """Create an ephemeral consumer and return its ConsumerInfo.

    Raises:
        BusUnavailable: JetStream does not answer or refuses.
    """
    query = {"stream_name": stream, "config": {"name": name, **config}}
    return await request(bus, f"CONSUMER.CREATE.{stream}.{name}", query, _TIMEOUT)


async def delete_consumer(bus: Bus, stream: str, name: str) -> None:
    """Delete a consumer, without waiting for the result.

    Raises:
        BusUnavailable: The connection is down.
    """
    await bus.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{name}", b"")


class Pulls:
    """Keeps pull requests open. Each ends after a batch of messages, or with a status."""

    def __init__(
        self,
        bus: Bus,
        stream: str,
        consumer: str,
        inbox: str,
        *,
        last_per_subject: bool = False,
    ) -> None:
        """Pull from `consumer` of `stream` into `inbox`, at most `WINDOW` messages ahead.

        A consumer of the last message per subject skips a message for which the last pull has ended
        (nats-server 2.15). So its pulls have no byte limit and wait long.
        """
        self._bus, self._subject, self._inbox = bus, pull_subject(stream, consumer), inbox
        self._requested = self._count = self._size = 0
        self._sized = last_per_subject
        if last_per_subject:
            self._least, self._most = _LEAST, _LEAST
            self._expires, heartbeat = _LONG, _SHORT_HEARTBEAT
            self._limits = dict[str, int]()
        else:
            self._least, self._most = _BATCH, WINDOW
            self._expires, heartbeat = _EXPIRES, HEARTBEAT
            self._limits = {"max_bytes": max(_BYTES, 2 * bus.max_payload)}
        self._limits["idle_heartbeat"] = round(heartbeat * _SECOND)

    @property
    def _window(self) -> int:
        """Maximum number of requested or unprocessed messages; lower for large messages."""
        if not self._sized:
            return self._most
        usual = (self._size + _BYTES) // (self._count + 1)
        return min(max(_BYTES // max(usual, 1), _LEAST), WINDOW)

    async def top_up(self, untaken: int) -> None:
        """Send pull requests while the window has room besides `untaken` messages.

        Raises:
            BusUnavailable: The connection is down.
        """
        while (room := self._window - self._requested - untaken) >= self._least:
            number = min(room, self._most)
            self._requested += number
            request = pull_request(number, self._expires, **self._limits)
            await self._bus.publish(self._subject, request, self._inbox)

    @property
    def waiting(self) -> bool:
        """Whether a pull request is open."""
        return self._requested > 0

    @property
    def may_be_taken(self) -> bool:
        """Whether messages are taken as they come."""
        return True

    @property
    def is_behind(self) -> bool:
        """Whether to ask for more as soon as some are taken."""
        return True

    def delivered(self, size: int) -> bool:
        """Record a delivered message of `size` bytes; return whether it may be taken."""
        self._requested -= 1
        self._count += 1
        self._size += size
        return True

    @staticmethod
    def only_ended(headers: dict[str, str]) -> bool:
        """Return whether a status ends one pull, not the consumer."""
        return PENDING_REQUEST in headers

    def ended(self, headers: dict[str, str]) -> None:
        """Record the end of a pull: it expired, or the next message did not fit."""
        self._requested -= int(headers[PENDING_REQUEST])


class SinglePull:
    """One pull request at a time, which ends with what is there.

    Between two of them, messages wait at the server and wake nobody.
    """

    def __init__(self, bus: Bus, stream: str, consumer: str, inbox: str, most: int) -> None:
        """Pull at most `most` messages at a time from `consumer` of `stream` into `inbox`."""
        self._bus, self._subject, self._inbox = bus, pull_subject(stream, consumer), inbox
        self._most, self._left = most, 0
        self._limits = {"max_bytes": max(_BYTES, 2 * bus.max_payload)}
        self.is_behind = False
        """Whether the server may have more than the last one has asked for."""

    async def top_up(self, untaken: int) -> None:
        """Send a pull request if none is open, unless `untaken` messages are enough for now.

        If there are none, it waits for the next message.

        Raises:
            BusUnavailable: The connection is down.
        """
        if self._left or untaken >= self._most:
            return
        self._left, self.is_behind = self._most, True
        if untaken:
            request = pull_request(self._most, **self._limits)
        else:
            heartbeat = round(HEARTBEAT * _SECOND)
            limits = {"no_wait": True, "idle_heartbeat": heartbeat, **self._limits}
            request = pull_request(self._most, _EXPIRES, **limits)
        await self._bus.publish(self._subject, request, self._inbox)

    @property
    def waiting(self) -> bool:
        """Whether a pull request is open."""
        return self._left > 0

    @property
    def may_be_taken(self) -> bool:
        """Whether no more messages are on their way."""
        return not self._left

    def delivered(self, _size: int) -> bool:
        """Record a delivered message; return whether no more are on their way."""
        self._left -= 1
        return not self._left

    @staticmethod
    def only_ended(headers: dict[str, str]) -> bool:
        """Return whether a status ends one pull, not the consumer."""
        return headers[STATUS] == _NO_MORE or PENDING_REQUEST in headers

    def ended(self, headers: dict[str, str]) -> None:
        """Record the end of the pull: all was delivered, it expired, or a message did not fit."""
        self._left, self.is_behind = 0, headers[STATUS] == _TOO_LARGE
