"""Direct gets: many messages in one answer, from any replica of a stream.

An answer is a series of core NATS messages, some of which may be lost (in a reconnect, or when a
server fails). Each names the previous one, so only messages without a gap are accepted.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.client import FROM_STREAM, ReceivedMessage, StreamPosition
from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import PENDING_MATCHES, PREVIOUS, SEQUENCE, STATUS, UP_TO

_ENDED = frozenset({"204", "404"})
"""Status of an answer's end and of an empty answer. Others are refusals (413, 503, …)."""


@dataclass(slots=True)
class DirectAnswer[Read]:
    """The result of a direct get."""

    messages: list[Read] = field(default_factory=list)
    """In the stream's order and without a gap, from the first requested one."""
    complete: bool = False
    """Whether the replica sent its whole answer and all of it arrived."""
    pending: int = 0
    """Number of further matching messages, if complete."""
    up_to: int = 0
    """For a query for last messages: the sequence that the replica had reached. 0: none match."""


async def direct_get[Read](
    bus: Bus,
    stream: str,
    query: dict[str, Any],
    read: Callable[[Msg], Read],
    *,
    alone: bool = False,
) -> DirectAnswer[Read]:
    """Request messages from one replica of `stream`; `read` converts each.

    A missing answer, a refusal and a partial answer are not errors: another replica may answer.
    `alone`: the leader is not asked too, as `Bus.has_only_copies`. Then the answer of a mirror,
    which may be behind what it copies, is not complete. Without messages, it is not known whose it
    is.

    Raises:
        BusUnavailable: The connection is down.
    """
    train = _ReplyBatch(read)
    end = await _ask(bus, stream, query, train)
    try:
        return await _answered(bus, stream, train, alone=alone)
    finally:
        end()


@asynccontextmanager
async def direct_get_begun[Read](
    bus: Bus, stream: str, query: dict[str, Any], read: Callable[[Msg], Read]
) -> AsyncIterator[Callable[[], Awaitable[DirectAnswer[Read]]]]:
    """Send a request as `direct_get` does; a call in the block returns its answer.

    Raises:
        BusUnavailable: The connection is down.
    """
    train = _ReplyBatch(read)
    end = await _ask(bus, stream, query, train)
    try:
        yield lambda: _answered(bus, stream, train)
    finally:
        end()


async def _answered[Read](
    bus: Bus, stream: str, train: "_ReplyBatch[Read]", *, alone: bool = False
) -> DirectAnswer[Read]:
    await train.arrival(bus.timing.replica_silence)
    source = b"%b%b\r\n" % (FROM_STREAM, stream.encode())
    if train.first and not train.first.startswith(source, train.first.rfind(FROM_STREAM)):
        train.answer.complete = train.answer.complete and not alone
        bus.note_mirror(stream)
    return train.answer


async def _ask[Read](
    bus: Bus, stream: str, query: dict[str, Any], train: "_ReplyBatch[Read]"
) -> Callable[[], None]:
    request = orjson.dumps(query)
    return await bus.ask_for_series(f"$JS.API.DIRECT.GET.{stream}", request, train.receive)


class _ReplyBatch[Read]:
    def __init__(self, read: Callable[[Msg], Read]) -> None:
        self.answer = DirectAnswer[Read]()
        self.first = b""
        """The first message's header block."""
        self._read = read
        self._last = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_answered = False
        self._timer: asyncio.TimerHandle | None = None

    def receive(self, msg: Msg) -> None:
        self._has_answered = True
        if self._over.done():
            return
        # Checked first: a stored message may have its own Status header.
        place = _place(msg)
        if place is None:
            self._end(msg.headers or {})
        elif place[1] == self._last:
            if not self._last and isinstance(msg, ReceivedMessage):
                self.first = msg.block
            self._last = place[0]
            self.answer.messages.append(self._read(msg))
        else:
            self._over.set_result(None)

    def _end(self, headers: dict[str, str]) -> None:
        if headers.get(STATUS) in _ENDED:
            self.answer.complete = int(headers.get(PREVIOUS, self._last)) == self._last
            self.answer.pending = int(headers.get(PENDING_MATCHES, "0"))
            self.answer.up_to = int(headers.get(UP_TO, "0"))
        self._over.set_result(None)

    async def arrival(self, silence: float) -> None:
        """Return when the answer is complete, or after `silence` seconds without a message."""
        self._look_after(silence)
        try:
            await self._over
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _look_after(self, silence: float) -> None:
        self._has_answered = False
        self._timer = asyncio.get_running_loop().call_later(silence, self._look, silence)

    def _look(self, silence: float) -> None:
        if self._has_answered:
            self._look_after(silence)
        elif not self._over.done():
            self._over.set_result(None)


def _place(msg: Msg) -> tuple[int, int] | None:
    """Return a message's sequence and the one before it in the answer. None: it is the end."""
    if isinstance(msg, ReceivedMessage) and (place := StreamPosition.read(msg.block)) is not None:
        msg.position = place
        return place.sequence, place.previous
    headers = msg.headers or {}
    sequence = headers.get(SEQUENCE)
    return None if sequence is None else (int(sequence), int(headers.get(PREVIOUS, "-1")))
