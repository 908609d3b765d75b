"""Which answers the users' streams have already stored.

A stream is read for all of its answers together: what was read for one is remembered for the next.
After an outage, hundreds of answers may be looked for on one subject.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from headrace.jetstream.headers import MESSAGE_ID
from headrace.log.read import headers_of
from headrace.model.errors import BusUnavailable
from headrace.model.events import Json

_CLOCKS = 60.0
"""Seconds by which NATS's clock may be behind task state's."""
_MOST_READ = 10_000
"""Messages of a subject that are read, and whose ids are remembered."""
_REMEMBERED = 10.0
"""Seconds for which a reading is used after its last message: its user may delete messages, or the
stream, at any time. One that an outage interrupts goes on."""
_MOST_SUBJECTS = 8
"""Subjects of which something is remembered, at most 1 MB of each."""

type ReadMessage = Callable[[str, Json], Awaitable[Json | None]]
"""Returns the message of a stream for a query; None: there is none."""


class AnswerPlace(NamedTuple):
    """Where answers are published."""

    stream: str
    subject: str


class StoredAnswers:
    """Finds answers by their message ids."""

    def __init__(self, read: ReadMessage, remembered: float = _REMEMBERED) -> None:
        """Read messages with `read`, and remember them for `remembered` seconds."""
        self._read, self._remembered = read, remembered
        self._readings: OrderedDict[AnswerPlace, _Reading] = OrderedDict()

    async def has(self, place: AnswerPlace, name: str, since: float) -> bool:
        """Return whether the answer `name`, first published at `since`, is or was stored there.

        Raises:
            BusUnavailable: the stream can't be read.
        """
        reading = self._readings.get(place)
        if reading is None or since < reading.since or self._is_spent(reading, name):
            reading = self._readings[place] = _Reading(place, since, self._read)
        self._readings.move_to_end(place)
        if len(self._readings) > _MOST_SUBJECTS:
            self._readings.popitem(last=False)
        if await reading.has(name):
            return True
        if reading.since < since and reading.is_full_without(name):
            # What was stored before `since` has filled it.
            return await self.has(place, name, since)
        return False

    def _is_spent(self, reading: "_Reading", name: str) -> bool:
        age = asyncio.get_running_loop().time() - reading.at
        return age >= self._remembered or reading.is_full_without(name)


class _Reading:
    """The messages of a subject from a time on, as far as they have been read."""

    def __init__(self, place: AnswerPlace, since: float, read: ReadMessage) -> None:
        self.since = since
        self.at = asyncio.get_running_loop().time()
        """When its last message was read, in loop time."""
        self._names = set[str]()
        self._place, self._read_message, self._read_number = place, read, 0
        begin = datetime.fromtimestamp(since - _CLOCKS, UTC)
        self._next: Json = {"start_time": begin.isoformat()}
        self._turn, self._turns = asyncio.Lock(), 0
        self._error: BusUnavailable | None = None

    def is_full_without(self, name: str) -> bool:
        """Return whether `name` is not known, and no more messages may be read."""
        return self._read_number >= _MOST_READ and name not in self._names

    async def has(self, name: str) -> bool:
        """Return whether `name` is there; calls that wait for another one share its outcome.

        Raises:
            BusUnavailable: it can't be read to its end, and `name` was not read.
        """
        before = self._turns
        async with self._turn:
            if self._turns == before and name not in self._names:
                self._error = await self._read()
                self._turns += 1
        if self._error is not None and name not in self._names:
            raise self._error
        return name in self._names

    async def _read(self) -> BusUnavailable | None:
        try:
            await self._read_all()
        except BusUnavailable as error:
            return error
        return None

    async def _read_all(self) -> None:
        while self._read_number < _MOST_READ:
            query = self._next | {"next_by_subj": self._place.subject}
            found = await self._read_message(self._place.stream, query)
            if found is None:
                return
            self._read_number, self.at = self._read_number + 1, asyncio.get_running_loop().time()
            self._next = {"seq": int(found["seq"]) + 1}
            if name := headers_of(found).get(MESSAGE_ID):
                self._names.add(name)
