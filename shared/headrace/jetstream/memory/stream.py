"""A stream in memory: its messages and the rules for storing them."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from headrace.jetstream.client import header_lines
from headrace.jetstream.errors import ErrorCode
from headrace.jetstream.headers import EXPECTED, EXPECTED_OF
from headrace.jetstream.memory.wire import matches

type Json = dict[str, Any]

_DUPLICATE = "maximum messages per subject exceeded"


class ApiRefusal(Exception):
    """JetStream's error answer."""

    def __init__(self, number: ErrorCode, description: str, code: int = 400) -> None:
        """Store the error object of the answer."""
        super().__init__(description)
        self.error = {"code": code, "err_code": int(number), "description": description}


def not_found(number: ErrorCode, what: str) -> ApiRefusal:
    """Return the error for something that does not exist."""
    return ApiRefusal(number, f"{what} not found", 404)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a stream."""

    sequence: int
    previous: int
    """Sequence of the message before it on its subject; 0: it was the first."""
    subject: str
    block: bytes
    """Its header block."""
    data: bytes
    time: datetime

    def to_json(self) -> Json:
        """Return the ``message`` of an answer to STREAM.MSG.GET."""
        found: Json = {"subject": self.subject, "seq": self.sequence, "time": stamp(self.time)}
        found["data"] = b64encode(self.data).decode()
        return found | ({"hdrs": b64encode(self.block).decode()} if self.block else {})


@dataclass(slots=True)
class MemoryStream:
    """A stream as its `config` declares it."""

    config: Json
    now: Callable[[], datetime]
    created: datetime = field(init=False)
    messages: dict[int, StoredMessage] = field(default_factory=dict)
    """By sequence, in order."""
    last: int = 0
    """Sequence of the last message, which may have been removed."""
    by_subject: dict[str, list[int]] = field(default_factory=dict)
    """Sequences of the messages on each subject."""

    def __post_init__(self) -> None:
        """Note the time."""
        self.created = self.now()

    def takes(self, subject: str) -> bool:
        """Return whether messages on `subject` are stored here."""
        return any(matches(pattern, subject) for pattern in self.config.get("subjects") or ())

    def store(self, subject: str, block: bytes, data: bytes) -> StoredMessage:
        """Store a message.

        Raises:
            ApiRefusal: the subject's last sequence is not the expected one, or the subject is full.
        """
        there = self.by_subject.get(subject, [])
        previous = there[-1] if there else 0
        headers = header_lines(block.partition(b"\r\n")[2]) if block else {}
        last = self.last_on(headers[EXPECTED_OF]) if EXPECTED_OF in headers else None
        expected, found = headers.get(EXPECTED), previous
        if EXPECTED_OF in headers:
            found = 0 if last is None else last.sequence
        if expected is not None and int(expected) != found:
            text = f"wrong last sequence: {found}"
            raise ApiRefusal(ErrorCode.WRONG_LAST_SEQUENCE, text)
        most = self.config.get("max_msgs_per_subject", -1)
        if 0 < most <= len(there):
            if self.config.get("discard_new_per_subject"):
                raise ApiRefusal(ErrorCode.STORE_FAILED, _DUPLICATE, 503)
            self.remove(there[0])
        self.last += 1
        stored = StoredMessage(self.last, previous, subject, block, data, self.now())
        self.messages[self.last] = stored
        self.by_subject.setdefault(subject, []).append(self.last)
        return stored

    def remove(self, sequence: int) -> bool:
        """Remove a message; return whether it existed."""
        gone = self.messages.pop(sequence, None)
        if gone is None:
            return False
        left = self.by_subject[gone.subject]
        left.remove(sequence)
        if not left:
            del self.by_subject[gone.subject]
        return True

    def purge(self, pattern: str, before: int) -> int:
        """Remove the messages that match, before sequence `before` (0: all); return how many."""
        gone = [
            one.sequence for one in self.matching(pattern) if not before or one.sequence < before
        ]
        return sum(self.remove(sequence) for sequence in gone)

    def matching(self, pattern: str, start: int = 0) -> Iterator[StoredMessage]:
        """Yield the messages that match `pattern` from sequence `start` on."""
        if (sequences := self.by_subject.get(pattern)) is not None:
            yield from [self.messages[one] for one in sequences if one >= start]
            return
        of_subjects = [its for one, its in self.by_subject.items() if matches(pattern, one)]
        yield from [self.messages[one] for one in sorted(chain(*of_subjects)) if one >= start]

    def last_on(self, pattern: str) -> StoredMessage | None:
        """Return the last message that matches `pattern`."""
        return max(self.matching(pattern), key=lambda one: one.sequence, default=None)

    def get(self, query: Json) -> StoredMessage:
        """Return the message for a query of STREAM.MSG.GET.

        Raises:
            ApiRefusal: there is none.
        """
        found: StoredMessage | None
        if (pattern := query.get("last_by_subj")) is not None:
            found = self.last_on(pattern)
        elif (pattern := query.get("next_by_subj")) is not None:
            found = next(self.matching(pattern, query.get("seq", 0)), None)
        else:
            found = self.messages.get(query["seq"])
        if found is None:
            raise not_found(ErrorCode.MESSAGE_NOT_FOUND, "message")
        return found

    def info(self, query: Json) -> Json:
        """Return the answer to STREAM.INFO."""
        state: Json = {
            "messages": len(self.messages),
            "bytes": sum(len(one.data) + len(one.block) for one in self.messages.values()),
            "first_seq": next(iter(self.messages), self.last + 1),
            "last_seq": self.last,
            "num_subjects": len(self.by_subject),
            "consumer_count": 0,
        }
        if (pattern := query.get("subjects_filter")) is not None:
            found = {one: len(its) for one, its in self.by_subject.items() if matches(pattern, one)}
            state["num_subjects"] = len(found)
            state["subjects"] = dict(list(found.items())[query.get("offset", 0) :])
        return {
            "config": self.config,
            "created": stamp(self.created),
            "state": state,
            "ts": stamp(self.now()),
        }


def stamp(time: datetime) -> str:
    """Return a time in NATS's format."""
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")
