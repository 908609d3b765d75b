"""What JetStream refuses, by its error numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import nats.errors
from nats.js.errors import APIError

from headrace.model.errors import BusUnavailable

_PER_SUBJECT = "per subject"


class ErrorCode(IntEnum):
    """The error numbers of JetStream that this code tells apart."""

    CONSUMER_NOT_FOUND = 10014
    INSUFFICIENT_RESOURCES = 10023
    MESSAGE_NOT_FOUND = 10037
    NOT_ENABLED_FOR_ACCOUNT = 10039
    """There is no JetStream in this account: where workers have accounts, theirs."""
    SEQUENCE_NOT_FOUND = 10043
    STORAGE_EXCEEDED = 10047
    MESSAGE_DELETE_FAILED = 10057
    STREAM_NAME_IN_USE = 10058
    STREAM_NOT_FOUND = 10059
    WRONG_LAST_SEQUENCE = 10071
    STORE_FAILED = 10077
    """The stream refuses the message: it is full, or its subject has one already."""
    CONSUMER_ACTIVE = 10105
    CONSUMER_EXISTS = 10148
    WRONG_LAST_SEQUENCE_CONSTANT = 10164


_FULL = frozenset(
    {ErrorCode.STORE_FAILED, ErrorCode.STORAGE_EXCEEDED, ErrorCode.INSUFFICIENT_RESOURCES}
)
_SETTLED = frozenset({ErrorCode.NOT_ENABLED_FOR_ACCOUNT})
"""What counts as the server's fault, and stays."""

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
    """JetStream has answered with an error."""

    def __init__(self, subject: str, error: dict[str, Any]) -> None:
        """Keep the ``error`` of an answer on `subject`."""
        super().__init__(f"{subject}: {error.get('description')}")
        self.number = int(error.get("err_code", 0))
        self._status = int(error.get("code", 0))
        self._description = str(error.get("description"))

    @property
    def is_passing(self) -> bool:
        """Whether it is the server that can't now, as while there is no leader."""
        is_final = self.is_full or self.is_duplicate or self.finds_no_message
        return self._status >= _SERVERS_FAULT and not is_final and self.number not in _SETTLED

    @property
    def is_duplicate(self) -> bool:
        """Whether the subject holds as many messages as it may."""
        return self.number == ErrorCode.STORE_FAILED and _PER_SUBJECT in self._description

    @property
    def is_full(self) -> bool:
        """Whether the stream takes no more messages."""
        return self.number in _FULL and not self.is_duplicate

    @property
    def has_other_sequence(self) -> bool:
        """Whether the subject's last sequence is not the expected one."""
        return self.number in _WRONG_SEQUENCE

    @property
    def finds_no_message(self) -> bool:
        """Whether there is no such message."""
        return self.number in _NO_MESSAGE


@contextmanager
def translated() -> Iterator[None]:
    """Raise what nats-py's own JetStream context raises in a block as errors of ours.

    Raises:
        Refused: the answer is an error.
        BusUnavailable: there is no answer.
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
