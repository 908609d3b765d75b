"""The task log: append with its outcomes, follow it live, replay it."""

from headrace.log.append import (
    AlikeHeaders,
    AppendRequest,
    AppendResult,
    FencedBy,
    LogWriter,
    writer_of,
)
from headrace.log.find import find_generation
from headrace.log.follow import Follower
from headrace.log.read import first_entry, last_entry, replay
from headrace.log.tail_rule import TailRule

__all__ = [
    "AlikeHeaders",
    "AppendRequest",
    "AppendResult",
    "FencedBy",
    "Follower",
    "LogWriter",
    "TailRule",
    "find_generation",
    "first_entry",
    "last_entry",
    "replay",
    "writer_of",
]
