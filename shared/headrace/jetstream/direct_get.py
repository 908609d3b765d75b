"""Direct gets: many messages in one answer, from any copy of a stream.

An answer is a train of core NATS messages, which may lose some on its way (a reconnect, a server
that dies). Each of them names the one before it, so only what is whole is taken.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import PENDING_MATCHES, PREVIOUS, SEQUENCE, STATUS, UP_TO

SILENCE = 0.5
"""Seconds of silence after which a copy is given up: a frozen one costs that much."""

_ENDED = frozenset({"204", "404"})
"""Status of an answer's end, and of an empty answer; others refuse (413, 503, …)."""


@dataclass(slots=True)
class DirectAnswer[Read]:
    """What came of one direct get."""

    messages: list[Read] = field(default_factory=list)
    """In the stream's order and without a hole, from the first one asked for."""
    complete: bool = False
    """Whether the copy said that this is its whole answer, and all of it came."""
    pending: int = 0
    """How many more messages match, if complete."""
    up_to: int = 0
    """For a question for last messages: the sequence that the copy had reached; 0: none match."""


async def direct_get[Read](
    bus: Bus, stream: str, query: dict[str, Any], read: Callable[[Msg], Read]
) -> DirectAnswer[Read]:
    """Ask one copy of `stream` for messages, each of which `read` turns into what is wanted.

    No answer, a refusal and half an answer are no errors: another copy may do better.

    Raises:
        BusUnavailable: there is no connection.
    """
    train = _Train(read)
    inbox = bus.connection.new_inbox()
    subscription = await bus.listen(inbox, train.take)
    try:
        await bus.publish(f"$JS.API.DIRECT.GET.{stream}", orjson.dumps(query), inbox)
        await train.arrival()
    finally:
        await bus.unsubscribe(subscription)
    return train.answer


class _Train[Read]:
    def __init__(self, read: Callable[[Msg], Read]) -> None:
        self.answer = DirectAnswer[Read]()
        self._read = read
        self._last = "0"
        self._over = asyncio.Event()
        self._heard = False

    def take(self, msg: Msg) -> None:
        self._heard = True
        if self._over.is_set():
            return
        headers = msg.headers or {}
        # Asked for first: a stored message may have a header Status of its own.
        sequence = headers.get(SEQUENCE)
        if sequence is None:
            self._end(headers)
        elif headers.get(PREVIOUS) == self._last:
            self._last = sequence
            self.answer.messages.append(self._read(msg))
        else:
            self._over.set()

    def _end(self, headers: dict[str, str]) -> None:
        if headers.get(STATUS) in _ENDED:
            self.answer.complete = headers.get(PREVIOUS, self._last) == self._last
            self.answer.pending = int(headers.get(PENDING_MATCHES, "0"))
            self.answer.up_to = int(headers.get(UP_TO, "0"))
        self._over.set()

    async def arrival(self) -> None:
        """Return when the train is in, or has been silent for too long."""
        while not self._over.is_set():
            self._heard = False
            try:
                await asyncio.wait_for(self._over.wait(), SILENCE)
            except TimeoutError:
                if not self._heard:
                    return
