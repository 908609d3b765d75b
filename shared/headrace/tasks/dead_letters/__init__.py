"""Dead letters: written once each, and for operators found, looked at, tried again, dropped."""

from headrace.tasks.dead_letters.letters import (
    KINDS,
    Kind,
    Letter,
    Letters,
    LetterUnknown,
    Wanted,
    write_letter,
)
from headrace.tasks.dead_letters.retrying import NotRetryable, Retried, retry

__all__ = [
    "KINDS",
    "Kind",
    "Letter",
    "LetterUnknown",
    "Letters",
    "NotRetryable",
    "Retried",
    "Wanted",
    "retry",
    "write_letter",
]
