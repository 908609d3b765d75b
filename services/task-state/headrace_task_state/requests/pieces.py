"""Answers longer than one bus message: each piece names the subject of the next one."""

import asyncio
import secrets
from typing import NamedTuple

from headrace.state_client import MORE

LIFE = 10.0
"""Seconds for which the rest of an answer is kept for the caller."""


class Piece(NamedTuple):
    """One message of an answer."""

    body: bytes
    headers: dict[str, str]


class AnswerPieces:
    """Splits answers, and keeps them until their pieces have been fetched."""

    def __init__(self, subject: str, size: int) -> None:
        """Serve pieces of `size` bytes on ``<subject>.<token>.<n>``, this replica's own."""
        self._subject, self._size = subject, size
        self._kept: dict[str, bytes] = {}

    @property
    def subjects(self) -> str:
        """Subjects on which pieces are requested."""
        return f"{self._subject}.{{token}}.{{number}}"

    def first(self, answer: bytes) -> Piece:
        """Return `answer`, or its first piece."""
        if len(answer) <= self._size:
            return Piece(answer, {})
        token = secrets.token_hex(8)
        self._kept[token] = answer
        asyncio.get_running_loop().call_later(LIFE, self._kept.pop, token, None)
        return self._piece(token, 0)

    def fetch(self, subject: str) -> Piece:
        """Return the piece requested on `subject`; an empty one if it is not kept."""
        token, number = subject.split(".")[-2:]
        return self._piece(token, int(number)) if number.isdecimal() else Piece(b"", {})

    def _piece(self, token: str, number: int) -> Piece:
        answer = self._kept.get(token, b"")
        start, end = number * self._size, (number + 1) * self._size
        more = {MORE: f"{self._subject}.{token}.{number + 1}"} if end < len(answer) else {}
        return Piece(answer[start:end], more)
