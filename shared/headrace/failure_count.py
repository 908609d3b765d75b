"""Counting the failures of messages that are delivered again.

JetStream counts deliveries, which also grow when nothing was tried: a message that waits its turn
is delivered again and again, and so is each one whose consumer has a new leader.
"""

from collections import OrderedDict
from collections.abc import Hashable

_MOST_KEYS = 10_000


class FailureCount:
    """The failures in this process, by what failed.

    Of the keys that failed last only: another process may have succeeded with the others.
    """

    def __init__(self) -> None:
        """Begin with no failures."""
        self._failures = OrderedDict[Hashable, int]()

    def add(self, key: Hashable) -> int:
        """Count a failure; return the number of those of `key`."""
        number = self._failures[key] = self._failures.pop(key, 0) + 1
        if len(self._failures) > _MOST_KEYS:
            self._failures.popitem(last=False)
        return number

    def forget(self, key: Hashable) -> None:
        """Forget the failures of what has succeeded or was given up."""
        self._failures.pop(key, None)
