"""A notification to send, and why a webhook did not accept it."""

from dataclasses import dataclass

from headrace.model.errors import HeadraceError
from headrace.model.names import encode_token


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification to send."""

    task: str
    id: str
    """The same for every attempt, so that a receiver can detect duplicates."""
    body: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    reason: str
    is_final: bool = False
    """Whether retrying is pointless."""
    is_gone: bool = False
    """Whether the receiver answered that it wants no more notifications."""
    wait: float = 0.0
    """Minimum seconds that the receiver asked to wait."""


def notice_id(log: str, generation: int, webhook: str) -> str:
    """Return the id, for one webhook, of the notification that ends with that event of the log."""
    return f"{log}:{generation}:{encode_token(webhook)}"


class Unsayable(HeadraceError):
    """The event can't be represented in 0.3."""

    code = "unsayable"
