"""The dead letters, as operators see them: found, looked at, tried again, dropped."""

from headrace.tasks.dead_letters.letters import KINDS, Kind, Letter, Letters, LetterUnknown, Wanted
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
]
