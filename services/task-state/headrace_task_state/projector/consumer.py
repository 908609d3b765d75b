"""A range's own consumer: every message after a position, in order and without gaps.

The consumer is ephemeral and acknowledges nothing; the position is in the store. It numbers the
messages that it delivers, so a gap is detected, and it sends heartbeats, so silence is detected
too. In both cases the consumer is discarded and another one starts after the last message taken.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.jetstream.api import Json
from headrace.jetstream.client import ReceivedMessage
from headrace.jetstream.connection import Bus
from headrace.jetstream.consumers import (
    HEARTBEAT,
    Pulls,
    SinglePull,
    create_consumer,
    delete_consumer,
    delivery,
)
from headrace.jetstream.headers import (
    DESCRIPTION,
    LAST_CONSUMER,
    LAST_STREAM,
    SEQUENCE,
    STATUS,
    SUBJECT,
    TIME,
    nanoseconds,
)
from headrace.log.read import tombstone_of
from headrace.model.entry import STATE, Stamp, parse_stamp, read_stamp
from headrace.model.errors import BusUnavailable, HeadraceError
from headrace.model.task import WORKING
from headrace.ticks import until_tick

_WORKING = f"{STATE}: {WORKING}\r\n".encode()


class Arrival(NamedTuple):
    """One message, with the information in its reply subject."""

    sequence: int
    """Stream sequence."""
    number: int
    """Messages that the consumer has delivered, including this one."""
    time: int
    """When NATS stored it, nanoseconds since 1970."""
    msg: Msg

    @property
    def pending(self) -> int:
        """Messages that the consumer had still to deliver after this one."""
        return int(self.msg.reply.rpartition(".")[2])

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""
        # Headers are read only if the body is empty: tombstones have no body.
        return not self.msg.data and tombstone_of(self.msg.headers) is not None

    def stamp(self) -> Stamp:
        """Return the stamp in the entry's headers.

        Raises:
            UndecodableMessage: the headers are not an entry's.
        """
        msg = self.msg
        if isinstance(msg, ReceivedMessage):
            return read_stamp(msg.subject, msg.block, lambda: msg.headers)
        return parse_stamp(msg.subject, msg.headers)


def read_arrival(msg: Msg) -> Arrival:
    """Return the message with the information in its reply subject.

    Raises:
        ValueError: the reply subject is not a consumer's.
    """
    # Its own constructor, which is a function in Python, takes three times as long.
    return tuple.__new__(Arrival, (*delivery(msg.reply), msg))


def read_directly(msg: Msg) -> Arrival:
    """Return a message that was read directly, in the form of one from a consumer.

    Raises:
        KeyError: JetStream did not send it.
    """
    headers = msg.headers or {}
    # The headers of the answer follow those of the entry, which are read from the block.
    msg.subject = headers[SUBJECT]
    return Arrival(int(headers[SEQUENCE]), 0, nanoseconds(headers[TIME]), msg)


_log = logging.getLogger(__name__)

MOST = 1000
"""Maximum tasks whose messages are in one batch: its write takes Redis some 10 ms."""

MOST_MESSAGES = 8000
"""Maximum messages in one batch. Output of many tasks takes a write per task and batch, so a batch
has room for what 400 of them say within `follower.OUTPUT_LINGER`."""

OUTPUT_POLL = 0.25
"""Seconds from one look for a message that is no output to the next, while output arrives. Until
then, all of it waits at the server, or each tick of a worker would wake this process."""

MOST_BYTES = 4 * 1024 * 1024
"""Maximum bytes of messages in one batch."""

_FORGET_AFTER = 10 * 1_000_000_000
"""Nanoseconds after which NATS drops the consumer of a replica that is gone."""


class ConsumerLost(HeadraceError):
    """This consumer skipped a message, fell silent or is gone."""

    code = "consumer_lost"


class Consumer:
    """Pulls messages ahead of their use, within bounds."""

    def __init__(
        self,
        bus: Bus,
        stream: str,
        name: str,
        *,
        last_per_subject: bool = False,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        """Prepare to read `stream` under the unique `name`.

        `last_per_subject` decides which of the two methods opens it. Three times `heartbeat`
        seconds of silence are a loss.
        """
        self._heartbeat = heartbeat
        self._bus, self._stream, self._name = bus, stream, name
        self._inbox = bus.connection.new_inbox()
        self._subscription: Subscription | None = None
        self._pulls: Pulls | SinglePull
        if last_per_subject:
            self._pulls = Pulls(bus, stream, name, self._inbox, last_per_subject=True)
        else:
            self._pulls = SinglePull(bus, stream, name, self._inbox, MOST_MESSAGES)
        self._arrived: list[Arrival] = []
        self._bytes = 0
        self._is_batch_due, self._wanted = asyncio.Event(), asyncio.Event()
        self._wake = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._last_message_at = self._loop.time()
        self._number = self._taken = self._wanted_to = 0
        self._watermark = (0, 0)
        self._lost = ""
        self._unregister = bus.on_disturbance(
            lambda: self._give_up("the connection was interrupted")
        )
        self.examined = 0
        """Stream sequence up to which the consumer has delivered all matching messages."""

    async def open(self, after: int) -> None:
        """Start after stream sequence `after`.

        Raises:
            BusUnavailable: NATS does not answer, or refuses.
        """
        await self._create({"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1})
        await self._ask()

    async def open_last_per_subject(self, subject: str) -> int:
        """Start with the last message of each subject under `subject`; return how many there are.

        Everything stored afterwards follows them.

        Raises:
            BusUnavailable: NATS does not answer, or refuses.
        """
        begin = {"deliver_policy": "last_per_subject", "filter_subject": subject}
        number = int((await self._create(begin))["num_pending"])
        await self._ask()
        return number

    async def _create(self, begin: Json) -> Json:
        self._subscription = await self._bus.listen(self._inbox, self._receive)
        config = {
            **begin,
            "ack_policy": "none",
            "inactive_threshold": _FORGET_AFTER,
            "mem_storage": True,
            "num_replicas": 1,
        }
        info = await create_consumer(self._bus, self._stream, self._name, config)
        self._last_message_at = self._loop.time()
        return info

    async def close(self) -> None:
        """Release everything, as far as NATS allows."""
        self._unregister()
        if self._subscription is not None:
            await self._bus.unsubscribe(self._subscription)
        try:
            await delete_consumer(self._bus, self._stream, self._name)
        except BusUnavailable as error:
            _log.debug("consumer %s was not deleted and will expire: %s", self._name, error)

    @property
    def complete_to(self) -> int:
        """Stream sequence up to which all matching messages have been taken."""
        if self._arrived:
            return self._arrived[0].sequence - 1
        return max(self._taken, self.examined)

    @property
    def waiting(self) -> int:
        """Messages that have arrived and have not been taken."""
        return len(self._arrived)

    @property
    def is_behind(self) -> bool:
        """Whether messages wait, here or at the server."""
        return bool(self._arrived) or self._pulls.is_behind

    async def fetch(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> list[Arrival]:
        """Return the next messages, of at most `most` tasks; empty if none arrived for a while.

        Raises:
            ConsumerLost: the consumer can't be used any more.
            BusUnavailable: NATS is not connected.
        """
        await self._arrival()
        if self._lost and not self._arrived:
            raise ConsumerLost(self._lost)
        taken = self._take(most, most_bytes)
        self._taken = taken[-1].sequence if taken else self._taken
        if not self._arrived and not self._lost and self.complete_to >= self._wanted_to:
            self._is_batch_due.clear()
            self._wanted.clear()
        if self._pulls.is_behind:
            await self._ask()
        return taken

    def _take(self, most: int, most_bytes: int) -> list[Arrival]:
        number, size = len(self._arrived), self._bytes
        if number > most or size > most_bytes:
            number, size = _fitting(self._arrived[:MOST_MESSAGES], most, most_bytes)
        taken, self._arrived = self._arrived[:number], self._arrived[number:]
        self._bytes -= size
        return taken

    async def accumulate(self, seconds: float, others: float = 0.0) -> None:
        """Let messages of working tasks accumulate for `seconds`.

        Then, or once another message is found, let those that follow accumulate for `others`
        seconds. One that arrives in a silence is found at once, and others after `OUTPUT_POLL`.
        Return at once if one waits already, after `want`, or if a batch is full.
        """
        deadline = self._loop.time() + seconds
        while not self._is_batch_due.is_set():
            await self._arrival()
            if self._is_batch_due.is_set() or (left := deadline - self._loop.time()) <= 0:
                await self.accumulate_all(others)
                return
            await _within(min(left, OUTPUT_POLL), self._wanted)

    async def accumulate_all(self, seconds: float) -> None:
        """Let all messages accumulate for `seconds`, or until `want` or a full batch."""
        await _within(seconds, self._wanted)

    def want(self, sequence: int = 0) -> None:
        """End both kinds of accumulating, until all is taken that has arrived or is wanted.

        Wanted is what there is up to stream sequence `sequence`.
        """
        self._wanted_to = max(self._wanted_to, sequence)
        self._is_batch_due.set()
        self._wanted.set()

    async def _arrival(self) -> None:
        """Return when a message waits to be taken, or if none arrived for a while."""
        await self._ask()
        if self._lost or (self._arrived and self._pulls.may_be_taken):
            return
        self._wake.clear()
        try:
            async with asyncio.timeout(until_tick(self._heartbeat)):
                await self._wake.wait()
        except TimeoutError:
            if self._loop.time() - self._last_message_at > 3 * self._heartbeat:
                self._lost = "no heartbeats from the consumer"

    async def _ask(self) -> None:
        """Have a pull request open, unless enough has arrived for now."""
        if not self._pulls.waiting:
            self._last_message_at = self._loop.time()
        await self._pulls.top_up(len(self._arrived))

    def _receive(self, msg: Msg) -> None:
        self._last_message_at = self._loop.time()
        if self._lost:
            return
        if msg.reply:
            self._receive_message(msg)
        else:
            self._receive_status(msg.headers or {})

    def _receive_message(self, msg: Msg) -> None:
        arrival = read_arrival(msg)
        if arrival.number != self._number + 1:
            self._give_up(f"expected message {self._number + 1}, received {arrival.number}")
            return
        self._number += 1
        size = len(msg.data)
        self._arrived.append(arrival)
        self._bytes += size
        if self._pulls.delivered(size):
            self._wake.set()
        if self._bytes >= MOST_BYTES or len(self._arrived) >= MOST_MESSAGES:
            self.want()
        elif type(msg) is not ReceivedMessage or _WORKING not in msg.block:
            # The task does not work after it, so it is no output.
            self._is_batch_due.set()

    def _receive_status(self, headers: dict[str, str]) -> None:
        match headers.get(STATUS):
            case "100":
                self._receive_heartbeat(headers)
            case "404" | "408" | "409" if self._pulls.only_ended(headers):
                self._pulls.ended(headers)
                self._wake.set()
            case status:
                self._give_up(f"{status} {headers.get(DESCRIPTION, '')}")

    def _receive_heartbeat(self, headers: dict[str, str]) -> None:
        number, sequence = int(headers[LAST_CONSUMER]), int(headers[LAST_STREAM])
        if number != self._number:
            self._give_up(f"{number} messages were sent, {self._number} received")
            return
        # A message may be in flight when the consumer reports that it has examined it. So a
        # heartbeat's position counts only once the next heartbeat reports that nothing was sent
        # since.
        former, self._watermark = self._watermark, (number, sequence)
        if former[0] == number:
            self.examined = former[1]

    def _give_up(self, why: str) -> None:
        self._lost = why
        self._wake.set()
        self.want()


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _fitting(arrivals: Sequence[Arrival], most: int, most_bytes: int) -> tuple[int, int]:
    """Return how many of them fit, at least one if `arrivals` is not empty, and their bytes.

    `most` is the maximum number of their tasks.
    """
    fitting, tasks = 0, set[str]()
    for number, arrival in enumerate(arrivals):
        tasks.add(arrival.msg.subject)
        size = fitting + len(arrival.msg.data)
        if number and (size > most_bytes or len(tasks) > most):
            return number, fitting
        fitting = size
    return len(arrivals), fitting
