"""Seeing that no event is missing between the entries of a log that somebody reads."""

from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.task import TaskKey


class Continuity:
    """Checks that generations follow on each other, and that the log stays the same one.

    A log whose head was trimmed while somebody read it would otherwise show as a silent hole.
    """

    def __init__(self, key: TaskKey, after: int) -> None:
        """Expect generation 1 if reading begins `after` stream sequence 0, else any first."""
        self._key = key
        self._next: int | None = None if after else 1
        self._log: str | None = None

    def check(self, entry: Entry) -> None:
        """Take `entry` as the next one.

        Raises:
            LogLost: it is not; what lay between is gone.
        """
        if self._next not in (None, entry.generation):
            lost = f"generation {self._next} of {self._key.task} is gone"
            raise LogLost(f"{lost}: {entry.generation} comes next")
        if self._log not in (None, entry.stamp.log):
            raise LogLost(f"{self._key.task} has another log now: {entry.stamp.log}")
        self._next, self._log = entry.last_generation + 1, entry.stamp.log
