"""Writing, reading and dropping dead letters.

A letter's number is its sequence in the stream: given once, and never to another letter.
"""

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from nats.aio.msg import Msg

from headrace import metrics
from headrace.jetstream.api import (
    delete_message,
    get_message,
    store_surely,
    stream_info,
    until_answered,
)
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.jetstream.headers import MESSAGE_ID, SEQUENCE, SUBJECT
from headrace.model.errors import BusUnavailable, HeadraceError, UndecodableMessage
from headrace.model.messages import DeadLetter
from headrace.model.names import decode_token, encode_token

type Kind = Literal["run", "run-request", "entry", "push", "other"]
"""``run``: work that was given up. ``run-request``: one that nobody can read, or whose log is gone.
``entry``: a message in a log that is no entry. ``push``: a notification that was not taken.
``other``: what this version does not know."""

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)

_BATCH = 100
_BATCH_BYTES = 4 * 1024 * 1024


class LetterUnknown(HeadraceError):
    """There is no letter of that number: it was dropped, or is older than letters are kept."""

    code = "letter_unknown"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters are looked for; None: all."""

    tenant: str | None = None
    agent: str | None = None
    kind: Kind | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter."""

    number: int
    tenant: str
    agent: str
    kind: Kind
    content: DeadLetter

    @property
    def body(self) -> bytes:
        """What the message that became a dead letter held."""
        return b64decode(self.content.body)

    @property
    def task(self) -> str | None:
        """The task, as far as the letter knows."""
        return self.content.task


class Letters:
    """The dead-letter stream."""

    def __init__(self, bus: Bus) -> None:
        """Look over `bus`."""
        self._bus = bus
        self._stream = bus.streams.dead

    async def find(self, wanted: Wanted, after: int = 0) -> AsyncIterator[Letter]:
        """Yield the letters that are wanted, oldest first, those with numbers above `after`.

        Raises:
            InvalidName: a tenant or an agent can't have that name.
            BusUnavailable: the stream does not answer, or there is none.
        """
        with self._saying_that_there_is_no_stream():
            await until_answered(self._bus, lambda: stream_info(self._bus, self._stream))
        subject = self._bus.subjects.dead(
            "*" if wanted.tenant is None else encode_token(wanted.tenant),
            "*" if wanted.agent is None else encode_token(wanted.agent),
        )
        while batch := await self._batch(subject, after):
            after = batch[-1].number
            for letter in batch:
                if wanted.kind in (None, letter.kind) and wanted.task in (None, letter.task):
                    yield letter

    async def _batch(self, subject: str, after: int) -> list[Letter]:
        query = {
            "batch": _BATCH,
            "max_bytes": _BATCH_BYTES,
            "seq": after + 1,
            "next_by_subj": subject,
        }

        async def ask() -> list[Letter]:
            answer = await direct_get(self._bus, self._stream, query, self._from_message)
            if not answer.messages and not answer.complete:
                raise BusUnavailable(f"stream {self._stream} does not answer")
            return answer.messages

        return await until_answered(self._bus, ask)

    async def get(self, number: int) -> Letter:
        """Return the letter of that number.

        Raises:
            LetterUnknown: there is none.
            BusUnavailable: the stream does not answer, or there is none.
        """
        with self._saying_that_there_is_no_stream():
            message = await until_answered(
                self._bus, lambda: get_message(self._bus, self._stream, {"seq": number})
            )
        if message is None:
            raise LetterUnknown(f"there is no dead letter {number}")
        return self._read(message["seq"], message["subject"], b64decode(message.get("data") or ""))

    async def drop(self, number: int) -> None:
        """Delete the letter of that number, its bytes in NATS's files included.

        Raises:
            LetterUnknown: there is none.
            BusUnavailable: the stream does not answer, or refuses.
        """
        with self._saying_that_there_is_no_stream():
            was_there = await until_answered(
                self._bus, lambda: delete_message(self._bus, self._stream, number)
            )
        if not was_there:
            raise LetterUnknown(f"there is no dead letter {number}")

    @contextmanager
    def _saying_that_there_is_no_stream(self) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            if refused.number != ErrorCode.STREAM_NOT_FOUND:
                raise
            missing = f"no Headrace uses this NATS: there is no stream {self._stream}"
            raise BusUnavailable(missing) from refused

    def _from_message(self, msg: Msg) -> Letter:
        headers = msg.headers or {}
        return self._read(int(headers[SEQUENCE]), headers[SUBJECT], msg.data)

    def _read(self, number: int, subject: str, data: bytes) -> Letter:
        tenant, agent = map(decode_token, subject.split(".")[-2:])
        try:
            content = DeadLetter.decode(subject, data)
        except UndecodableMessage as error:
            content = DeadLetter(reason=f"no dead letter: {error.reason}", subject="", at="")
            return Letter(number, tenant, agent, "other", content)
        return Letter(number, tenant, agent, _kind(content, self._bus.subjects.prefix), content)


async def write_letter(bus: Bus, letter: DeadLetter, message_id: str | None = None) -> None:
    """Store a letter; a second one with the same `message_id` is dropped for two minutes.

    Raises:
        BusUnavailable: it is not stored, or not for certain.
    """
    tenant, agent = addressee(letter.subject, bus.subjects.prefix)
    headers = None if message_id is None else {MESSAGE_ID: message_id}
    await store_surely(bus, bus.subjects.dead(tenant, agent), letter.encode(), headers)
    metrics.DEAD_LETTERS.labels(_kind(letter, bus.subjects.prefix)).inc()


def addressee(subject: str, prefix: str) -> tuple[str, str]:
    """Return the tenant and agent whose letter it is; a subject too short for that names none."""
    kind, *tokens = subject.removeprefix(f"{prefix}.").split(".")
    tenant, agent = (*tokens[0 if kind == "run" else 1 :], "unknown", "unknown")[:2]
    return tenant, agent


def _kind(letter: DeadLetter, prefix: str) -> Kind:
    match letter.subject.removeprefix(f"{prefix}.").partition(".")[0]:
        case "run":
            return "run-request" if letter.task is None else "run"
        case "event":
            return "entry"
        case "push":
            return "push"
        case _:
            return "other"
