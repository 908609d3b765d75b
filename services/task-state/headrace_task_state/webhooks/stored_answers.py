"""Which answers the users' streams have already stored.

A stream is read for all of its answers together: what was read for one is remembered for the next.
After an outage, hundreds of answers may be looked for on one subject.
"""

import asyncio
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.model.errors import BusUnavailable
from headrace.model.events import Json

_CLOCKS = 60.0
"""Seconds by which NATS's clock may be behind task state's."""
_MOST_READ = 10_000
"""Messages of a subject that are read for an answer; up to twice as many ids are remembered."""
_REMEMBERED = 10.0
"""Seconds for which a reading is remembered after its last use: its user may delete messages, or
the stream, at any time."""
_MOST_SUBJECTS = 8
"""Subjects of which something is remembered, at most 4 MB of each."""


class SearchedMessage(NamedTuple):
    """What a search needs of a message."""

    sequence: int
    time: float
    """When it was stored, in seconds since 1970."""
    name: str
    """Its message id; empty: none."""


type ReadMessages = Callable[[str, Json], Awaitable[Sequence[SearchedMessage]]]
"""Returns the next messages of a stream for a query, at least one if there are any."""


class AnswerPlace(NamedTuple):
    """Where answers are published."""

    stream: str
    subject: str


class StoredAnswers:
    """Finds answers by their message ids."""

    def __init__(
        self, read: ReadMessages, remembered: float = _REMEMBERED, most_read: int = _MOST_READ
    ) -> None:
        """Read messages with `read`, at most `most_read`, and remember them for `remembered` s."""
        self._read, self._remembered, self._most_read = read, remembered, most_read
        self._readings: OrderedDict[AnswerPlace, _Reading] = OrderedDict()

    async def has(self, place: AnswerPlace, name: str, since: float) -> bool:
        """Return whether the answer `name`, first published at `since`, is or was stored there.

        Of the messages since then, the first ones are read.

        Raises:
            BusUnavailable: the stream can't be read.
        """
        begin, reading = since - _CLOCKS, self._readings.get(place)
        if reading is None or reading.idle >= self._remembered:
            reading = self._readings[place] = _Reading(place, begin, self._read, self._most_read)
        self._readings.move_to_end(place)
        if len(self._readings) > _MOST_SUBJECTS:
            self._readings.popitem(last=False)
        return await reading.has(name, begin)


class _Reading:
    """The messages of a subject from a time on, as far as they have been read.

    The place from which answers are looked for moves on with them, so each message is read once
    although there may be any number.
    """

    def __init__(
        self, place: AnswerPlace, begin: float, read: ReadMessages, most_read: int
    ) -> None:
        self._place, self._read_messages, self._most_read = place, read, most_read
        self._begin_at(begin)
        self._turn, self._turns, self._used = asyncio.Lock(), 0, asyncio.get_running_loop().time()

    def _begin_at(self, begin: float) -> None:
        self._times, self._names, self._known = list[float](), list[str](), set[str]()
        self._begin = begin
        """The time from which on it has all messages, in seconds since 1970."""
        self._next: Json = {"start_time": datetime.fromtimestamp(begin, UTC).isoformat()}
        self._error: BusUnavailable | None = None
        self._is_at_end = False

    @property
    def idle(self) -> float:
        """Seconds since its last use."""
        return asyncio.get_running_loop().time() - self._used

    async def has(self, name: str, begin: float) -> bool:
        """Return whether `name` is there; calls that wait for another one share its outcome.

        Raises:
            BusUnavailable: it can't be read to its end, and `name` was not read.
        """
        before = self._turns
        async with self._turn:
            if begin < self._begin and name not in self._known:
                self._begin_at(begin)
            is_new = self._turns == before or not (self._is_at_end or self._error)
            if is_new and not self._suffices(name, begin):
                self._error = await self._read(begin)
                self._turns += 1
        self._used = asyncio.get_running_loop().time()
        if self._error is not None and not self._suffices(name, begin):
            raise self._error
        return name in self._known

    def _suffices(self, name: str, begin: float) -> bool:
        """Return whether `name` is known, or no more messages may be read for it."""
        return name in self._known or self._number_since(begin) >= self._most_read

    def _number_since(self, begin: float) -> int:
        return len(self._times) - bisect_left(self._times, begin)

    async def _read(self, begin: float) -> BusUnavailable | None:
        try:
            await self._read_on(begin)
        except BusUnavailable as error:
            return error
        return None

    async def _read_on(self, begin: float) -> None:
        self._is_at_end = False
        while self._number_since(begin) < self._most_read:
            query = self._next | {"next_by_subj": self._place.subject}
            found = await self._read_messages(self._place.stream, query)
            self._used = asyncio.get_running_loop().time()
            if not found:
                self._is_at_end = True
                return
            for one in found:
                self._times.append(one.time)
                self._names.append(one.name)
                self._known.add(one.name)
            self._next = {"seq": found[-1].sequence + 1}
            if len(self._times) > 2 * self._most_read:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self._times[: self._most_read], self._names[: self._most_read]
        self._begin, self._known = self._times[0], set(self._names)
