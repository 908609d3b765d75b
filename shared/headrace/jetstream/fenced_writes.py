"""Writing a group of subjects as its only writer: compare-and-set over all of them together.

Each message expects that the group's last message is the one that this writer knows. So a writer
that has been replaced, and does not know it, stores nothing: its successor begins with a claim.
"""

from base64 import b64decode
from collections.abc import Mapping

from headrace.jetstream.api import Json, get_message, store, store_with_retries, until_answered
from headrace.jetstream.client import header_lines
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import EXPECTED, EXPECTED_OF
from headrace.model.entry import WRITER
from headrace.model.errors import BusUnavailable, Fenced

_TIMEOUT = 2.0
"""Seconds to wait for the ack of a message, once."""


class FencedWrites:
    """The writes of one writer. One call at a time."""

    def __init__(self, bus: Bus, stream: str, pattern: str, writer: str) -> None:
        """Write on subjects of `stream` that match `pattern`. Each `writer` has its own name."""
        self._bus, self._stream, self._pattern = bus, stream, pattern
        self._writer, self._last = writer, 0

    async def claim(self, subject: str) -> None:
        """Store a message on `subject`, after which no earlier writer can store any.

        Without it, the first write expects that no subject of the group has a message.

        Raises:
            BusUnavailable: It may be stored or not. Repeat the call.
        """
        headers = {WRITER: self._writer}
        self._last = await store_with_retries(self._bus, subject, b"claim", headers)

    async def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        """Store a message and return its sequence.

        Raises:
            Fenced: Another writer has stored a message.
            BusUnavailable: It may be stored or not. Repeat the call.
        """
        return await until_answered(self._bus, lambda: self._store(subject, data, headers))

    async def _store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        expecting = {**headers, WRITER: self._writer, EXPECTED_OF: self._pattern}
        expecting[EXPECTED] = str(self._last)
        try:
            self._last = await store(self._bus, subject, data, _TIMEOUT, expecting)
        except Refused as refused:
            if not refused.has_other_sequence:
                raise
            if not await self._is_stored(subject, data, refused):
                raise BusUnavailable(str(refused)) from refused  # repeated with what is last
        return self._last

    async def _is_stored(self, subject: str, data: bytes, refused: Refused) -> bool:
        """Return whether the refused message is stored already, and note what is last.

        Raises:
            Fenced: Another writer has stored a message.
        """
        query = {"last_by_subj": self._pattern}
        there = await get_message(self._bus, self._stream, query)
        # The last message may have expired, or have been purged with all others.
        sequence = 0 if there is None else int(there["seq"])
        if there is None or sequence <= self._last:
            self._last = sequence
            return False
        if _writer_of(there) != self._writer:
            raise Fenced(f"another writer has stored {there['subject']}") from refused
        self._last = sequence
        return there["subject"] == subject and b64decode(there.get("data") or "") == data


def _writer_of(message: Json) -> str:
    headers = header_lines(b64decode(message.get("hdrs") or "").partition(b"\r\n")[2])
    return headers.get(WRITER, "")
