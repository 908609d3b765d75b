"""Logs of tasks that wait for their user, kept for the message that continues them.

That message is appended by compare-and-set behind the last entry of the log as its gateway knows
it. So the log need not be read again: if it has gone on elsewhere, or is gone, it refuses the
append, and only then is it read.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from headrace.model.entry import Entry
from headrace.model.fold import TaskFold
from headrace.model.task import TaskKey

_SECONDS = 300.0
"""For how long a log is kept: most people answer sooner, if they do."""

_TOTAL_BYTES = 8 * 1024 * 1024

MOST_BYTES = 32 * 1024
"""Maximum size of a log that is kept."""


class WaitingLog(NamedTuple):
    """The whole log of a task that waits for its user."""

    entries: Sequence[Entry]
    fold: TaskFold | None = None
    """What they make of the task, if a client has waited for that here."""


class _Kept(NamedTuple):
    log: WaitingLog
    size: int
    until: float


class WaitingLogs:
    """The logs that were last in use, each until it is taken or `_SECONDS` have passed."""

    def __init__(self, total_bytes: int = _TOTAL_BYTES, seconds: float = _SECONDS) -> None:
        """Keep logs of `total_bytes` together, each for `seconds`."""
        self._left, self._seconds = total_bytes, seconds
        self._kept = OrderedDict[TaskKey, _Kept]()

    def __len__(self) -> int:
        """Return the number of logs that are kept."""
        return len(self._kept)

    def keep(self, key: TaskKey, log: WaitingLog, size: int) -> None:
        """Keep a log, which takes `size` bytes of memory; drop the oldest ones for it."""
        self.take(key)
        self._kept[key] = _Kept(log, size, time.monotonic() + self._seconds)
        self._left -= size
        while self._left < 0:
            self.take(next(iter(self._kept)))

    def take(self, key: TaskKey) -> WaitingLog | None:
        """Return a log and keep it no longer. None: it is not kept."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        self._left += kept.size
        return kept.log if kept.until > time.monotonic() else None

    def drop_old(self) -> None:
        """Drop the logs whose time has passed."""
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self.take(next(iter(self._kept)))
