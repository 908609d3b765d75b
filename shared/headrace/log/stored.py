"""Turning what JetStream hands out into entries: live copies, direct gets, leader gets."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg

from headrace.jetstream.client import header_lines
from headrace.jetstream.headers import PREVIOUS, SEQUENCE, SUBJECT, TIME
from headrace.model.entry import OWNER, Entry, parse_entry
from headrace.model.errors import UndecodableMessage

TOMBSTONE = "Headrace-Tombstone"
"""Header of a message without content that stands where the log of a forgotten task was."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is known of a task that is kept no more."""

    why: str
    """``retention`` or ``deleted``."""
    owner: str
    """Whose it was, as a subject token; empty: nobody knows."""


def tombstone_of(headers: Mapping[str, str] | None) -> Tombstone | None:
    """Return the tombstone that a message with `headers` is; None: it is none."""
    why = headers.get(TOMBSTONE) if headers else None
    return Tombstone(why, headers.get(OWNER, "")) if headers and why else None


@dataclass(frozen=True, slots=True)
class Stored:
    """A message on a log's subject, entry or not."""

    sequence: int
    previous: int
    """In a live message, the sequence of the one before it on the same subject; 0: it is the first.

    Elsewhere it says nothing of the subject."""
    entry: Entry | None
    """None: it does not parse, and is stepped over."""
    tombstone: Tombstone | None = None
    """What it says of a task that is kept no more: nothing can follow, what was before is gone."""

    @property
    def is_tombstone(self) -> bool:
        """Whether it is a tombstone."""
        return self.tombstone is not None


def from_message(msg: Msg, event: str = "") -> Stored:
    """Read a republished or directly got message; `event` is the subject of the log it is to be of.

    Raises:
        UndecodableMessage: it carries no sequence, so JetStream did not send it; or it is of
            another log.
    """
    headers = msg.headers or {}
    if event and headers.get(SUBJECT) != event:
        raise UndecodableMessage(msg.subject, f"is of {headers.get(SUBJECT)}, not of {event}")
    try:
        sequence, previous = int(headers[SEQUENCE]), int(headers.get(PREVIOUS, "0"))
    except (KeyError, ValueError):
        raise UndecodableMessage(msg.subject, f"no {SEQUENCE}: not JetStream's") from None
    entry = _entry(msg.subject, headers, msg.data, sequence, headers.get(TIME, ""))
    return Stored(sequence, previous, entry, None if msg.data else tombstone_of(headers))


def from_leader(message: Mapping[str, Any]) -> Stored:
    """Read the ``message`` of a STREAM.MSG.GET answer."""
    headers = headers_of(message)
    sequence = int(message["seq"])
    data = b64decode(message.get("data") or "")
    entry = _entry(message["subject"], headers, data, sequence, message.get("time", ""))
    return Stored(sequence, 0, entry, None if data else tombstone_of(headers))


def headers_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of the ``message`` of a STREAM.MSG.GET answer."""
    return header_lines(b64decode(message.get("hdrs") or "").partition(b"\r\n")[2])


def _entry(
    subject: str, headers: Mapping[str, str], data: bytes, sequence: int, time: str
) -> Entry | None:
    try:
        return parse_entry(subject, headers, data, sequence, time)
    except UndecodableMessage:
        return None
