"""NATS and JetStream headers that describe messages."""

from collections.abc import Mapping
from datetime import datetime

STREAM = "Nats-Stream"
"""Of a message that was republished or got directly: the stream that stores it."""
SUBJECT = "Nats-Subject"
"""Of a message that was republished or got directly: the subject it is stored on."""
SEQUENCE = "Nats-Sequence"
"""Of the same: its sequence in its stream."""
PREVIOUS = "Nats-Last-Sequence"
"""Of the same: the sequence before it on its subject, or in the answer of a direct get."""
TIME = "Nats-Time-Stamp"
"""Of the same: when it was stored, RFC 3339."""

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
"""Compare-and-set: store this message only if its subject's last one has this sequence."""
EXPECTED_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
"""With `EXPECTED`: the subjects, with wildcards, whose last message is meant."""
EXPECTED_STREAM = "Nats-Expected-Stream"
"""Store this message only in the stream of this name."""
TTL = "Nats-TTL"
"""Time to live: seconds, or a Go duration."""
MESSAGE_ID = "Nats-Msg-Id"
"""JetStream drops a second message with the same id within the stream's duplicate window."""
KV_OPERATION = "KV-Operation"
"""``DEL``: this message deletes its key."""

ROLLUP = "Nats-Rollup"
"""``sub``: storing this message removes the earlier ones on its subject."""
SCHEDULE = "Nats-Schedule"
"""When JetStream fires: ``@at`` and a time, ``@every`` and a Go duration, or cron with seconds."""
SCHEDULE_TARGET = "Nats-Schedule-Target"
"""The subject, in the same stream, on which a copy of the message is stored at each firing."""
SCHEDULE_TIME_ZONE = "Nats-Schedule-Time-Zone"
"""The IANA time zone of a cron expression."""
SCHEDULE_NEXT = "Nats-Schedule-Next"
"""Of a firing: when the schedule fires next, RFC 3339; `PURGE`: never again."""
SCHEDULER = "Nats-Scheduler"
"""Of a firing: the subject of its schedule."""
PURGE = "purge"
"""As `SCHEDULE_NEXT`: storing this message removes the schedule on the subject `SCHEDULER`."""

BATCH_ID = "Nats-Batch-Id"
"""Of messages that are stored together or not at all: the batch."""
BATCH_SEQUENCE = "Nats-Batch-Sequence"
"""Of the same: the message's number in its batch, from 1."""
BATCH_COMMIT = "Nats-Batch-Commit"
"""Of the last one of a batch: ``1``."""

DUE = "Headrace-Due"
"""Of a firing that is back-filled: the time that it is for, RFC 3339."""
DUE_SINCE = "Headrace-Due-Since"
"""Of a message that is stored with a change of a schedule: the time after which the replaced
definition may have been due, RFC 3339. A schedule by interval counts from it."""

STATUS = "Status"
DESCRIPTION = "Description"
PENDING_MATCHES = "Nats-Num-Pending"
"""Of the end of a direct get: how many more messages match."""
UP_TO = "Nats-UpTo-Sequence"
"""Of the end of a direct get for last messages: the sequence that the copy had reached."""
PENDING_REQUEST = "Nats-Pending-Messages"
"""Of the end of a pull request: how many messages of it were not delivered."""
LAST_CONSUMER = "Nats-Last-Consumer"
"""Of a consumer's heartbeat: how many messages it has delivered."""
LAST_STREAM = "Nats-Last-Stream"
"""Of a consumer's heartbeat: the stream sequence that it has reached."""

_NATS = "Nats-"
_NANOSECOND_DIGITS = 9


def without_nats(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of `headers` that no part of NATS has set or acts on."""
    return {name: value for name, value in headers.items() if not name.startswith(_NATS)}


def nanoseconds(time: str) -> int:
    """Return a time as NATS writes it (RFC 3339, UTC, up to nanoseconds) in ns since 1970."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    moment = datetime.fromisoformat(f"{seconds}+00:00")
    return round(moment.timestamp()) * 10**9 + int(fraction.ljust(_NANOSECOND_DIGITS, "0") or 0)
