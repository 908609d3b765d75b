"""JetStream's refusals, by error number."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import nats.errors
from nats.js.errors import APIError

from headrace.model.errors import BusUnavailable

_PER_SUBJECT = "per subject"


class ErrorCode(IntEnum):
    """The JetStream error numbers that this code distinguishes."""

    CONSUMER_NOT_FOUND = 10014
    INSUFFICIENT_RESOURCES = 10023
    MESSAGE_NOT_FOUND = 10037
    NOT_ENABLED_FOR_ACCOUNT = 10039
    """The account has no JetStream, as workers' own accounts."""
    SEQUENCE_NOT_FOUND = 10043
    STORAGE_EXCEEDED = 10047
    MESSAGE_DELETE_FAILED = 10057
    STREAM_NAME_IN_USE = 10058
    STREAM_NOT_FOUND = 10059
    WRONG_LAST_SEQUENCE = 10071
    STORE_FAILED = 10077
    """The stream refuses the message: it is full, or its subject already has one."""
    CONSUMER_ACTIVE = 10105
    CONSUMER_EXISTS = 10148
    WRONG_LAST_SEQUENCE_CONSTANT = 10164
    BATCH_INCOMPLETE = 10176
    """A message of the batch is missing, as after a change of the leader: nothing is stored."""
    SCHEDULE_INVALID = 10189
    """The expression of a message schedule is invalid, or never due."""
    TOO_MANY_BATCHES = 10210
    TIME_ZONE_INVALID = 10223


_FULL = frozenset(
    {ErrorCode.STORE_FAILED, ErrorCode.STORAGE_EXCEEDED, ErrorCode.INSUFFICIENT_RESOURCES}
)
_SETTLED = frozenset({ErrorCode.NOT_ENABLED_FOR_ACCOUNT})
"""Errors with a server-error status that are permanent."""

_REPEATED = frozenset({ErrorCode.BATCH_INCOMPLETE, ErrorCode.TOO_MANY_BATCHES})
"""Errors with a client-error status that a repetition does not meet."""

_SERVERS_FAULT = 500
_NO_MESSAGE = frozenset(
    {
        ErrorCode.MESSAGE_NOT_FOUND,
        ErrorCode.SEQUENCE_NOT_FOUND,
        ErrorCode.MESSAGE_DELETE_FAILED,
    }
)
_WRONG_SEQUENCE = frozenset({ErrorCode.WRONG_LAST_SEQUENCE, ErrorCode.WRONG_LAST_SEQUENCE_CONSTANT})


class Refused(BusUnavailable):
    """JetStream answered with an error."""

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        """Keep the ``error`` of an answer on `subject`."""
        super().__init__(f"{subject}: {error.get('description')}")
        self.number = int(error.get("err_code", 0))
        self._status = int(error.get("code", 0))
        self._description = str(error.get("description"))

    @property
    def is_passing(self) -> bool:
        """Whether the error is temporary, as while no leader exists."""
        if self.number in _REPEATED:
            return True
        is_final = self.is_full or self.is_duplicate or self.finds_no_message
        return self._status >= _SERVERS_FAULT and not is_final and self.number not in _SETTLED

    @property
    def is_duplicate(self) -> bool:
        """Whether the subject has its maximum number of messages."""
        return self.number == ErrorCode.STORE_FAILED and _PER_SUBJECT in self._description

    @property
    def is_full(self) -> bool:
        """Whether the stream is full."""
        return self.number in _FULL and not self.is_duplicate

    @property
    def has_other_sequence(self) -> bool:
        """Whether the subject's last sequence is not the expected one."""
        return self.number in _WRONG_SEQUENCE

    @property
    def finds_no_message(self) -> bool:
        """Whether the message does not exist."""
        return self.number in _NO_MESSAGE


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of nats-py's JetStream context in a block to `HeadraceError`s.

    Raises:
        Refused: The answer is an error.
        BusUnavailable: No answer came.
    """
    try:
        yield
    except APIError as error:
        found = {
            "code": error.code or 0,
            "err_code": error.err_code or 0,
            "description": error.description,
        }
        raise Refused("JetStream", found) from error
    except nats.errors.Error as error:
        raise BusUnavailable(f"JetStream does not answer: {error}") from error
