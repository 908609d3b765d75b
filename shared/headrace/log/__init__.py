"""The task log: append with its outcomes, follow it live, replay it."""

from headrace.log.append import FencedBy, LogWriter
from headrace.log.follow import Follower
from headrace.log.read import replay
from headrace.log.search import find_generation, last_entry
from headrace.log.tailrule import TailRule

__all__ = [
    "FencedBy",
    "Follower",
    "LogWriter",
    "TailRule",
    "find_generation",
    "last_entry",
    "replay",
]
