"""Turning what JetStream hands out into entries: live copies, direct gets, leader gets."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg

from headrace.entry import PREVIOUS, SEQUENCE, SUBJECT, TIME, Entry, parse_entry
from headrace.errors import UndecodableMessage
from headrace.nats_client import header_lines


@dataclass(frozen=True, slots=True)
class Stored:
    """A message on a log's subject, entry or not."""

    sequence: int
    previous: int
    """In a live message, the sequence of the one before it on the same subject; 0: it is the first.

    Elsewhere it says nothing of the subject."""
    entry: Entry | None
    """None: it does not parse, and is stepped over."""


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
    return Stored(
        sequence, previous, _entry(msg.subject, headers, msg.data, sequence, headers.get(TIME, ""))
    )


def from_leader(message: Mapping[str, Any]) -> Stored:
    """Read the ``message`` of a STREAM.MSG.GET answer."""
    headers = header_lines(b64decode(message.get("hdrs") or "").partition(b"\r\n")[2])
    sequence = int(message["seq"])
    data = b64decode(message.get("data") or "")
    return Stored(
        sequence, 0, _entry(message["subject"], headers, data, sequence, message.get("time", ""))
    )


def _entry(
    subject: str, headers: Mapping[str, str], data: bytes, sequence: int, time: str
) -> Entry | None:
    try:
        return parse_entry(subject, headers, data, sequence, time)
    except UndecodableMessage:
        return None
