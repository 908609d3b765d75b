"""The tasks that workers hold, as the watch of workers in this process knows from their answers.

A task that is known here needs no question to its holder: its worker has just been asked for all of
them at once. A replica that does not watch the workers knows none.
"""

from typing import Protocol


class WatchedHolder(Protocol):
    """A worker, as its watch knows it."""

    @property
    def answers(self) -> bool:
        """Whether it has answered the last question for its runs."""


class HeldTask:
    """A task that a worker holds, and how long nothing was heard of it."""

    __slots__ = ("_pause", "_sequence", "holder")

    def __init__(self, holder: WatchedHolder) -> None:
        """Nothing was asked about it yet; `holder` holds it."""
        self.holder = holder
        self._sequence, self._pause = "", 0.0

    def next_pause(self, sequence: str, least: float, most: float) -> float:
        """Return the seconds until the task should be looked at again.

        They double from `least` to `most` while `sequence`, that of the log's last entry, stays.
        """
        is_silent = sequence == self._sequence
        self._sequence = sequence
        self._pause = min(2 * self._pause, most) if is_silent else least
        return self._pause


class HeldTasks:
    """All that are known, by the control subjects of the tasks."""

    def __init__(self) -> None:
        """Know none."""
        self._held: dict[str, HeldTask] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no task is known, as on a replica that does not watch the workers."""
        return not self._held

    def record(self, subject: str, holder: WatchedHolder) -> None:
        """Record that `holder` holds the task; another may have held it before."""
        self._held[subject] = HeldTask(holder)

    def release(self, subject: str, holder: WatchedHolder) -> None:
        """Record that `holder` does not hold the task any more; another may hold it already."""
        if (held := self._held.get(subject)) is not None and held.holder is holder:
            del self._held[subject]

    def find(self, subject: str) -> HeldTask | None:
        """Return the task if a worker holds it that has answered its last question."""
        held = self._held.get(subject)
        return held if held is not None and held.holder.answers else None
