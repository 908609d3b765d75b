"""The list of the runs that a worker holds, for task state, which asks for what has changed."""

import math
from collections import deque

from headrace.model.messages import Holds

_MOST = 2000
"""Maximum number of holds in one answer, which then fits into a message; others follow."""

_REMEMBERED = 8192
"""Ends of holds that are remembered for watchers; who missed more gets the whole list."""

_CUT_SHORT = 16
"""Answers without the newest holds that are remembered, likewise: several watchers may ask."""


class HoldList:
    """The holds that have lasted for some time, each under the number of the change that added it.

    Times are monotonic seconds.
    """

    def __init__(self, watched: float) -> None:
        """Start empty; without a request for `watched` seconds, there is no watcher."""
        self._watched = watched
        self._number = 0
        self._held: dict[int, tuple[str, str]] = {}
        """The reply subject of each run request, and the task's control subject, if it is known."""
        self._ended: deque[tuple[int, int]] = deque()
        """Numbers of each end and of its hold."""
        self._forgotten = 0
        """Who has only an answer with a lower number gets the whole list."""
        self._cut_short: dict[int, int] = {}
        """The last hold that an answer listed, by the answer's number, if there were more."""
        self._known, self._queried_at = 0, -math.inf

    def add(self, reply: str, task: str = "") -> int:
        """Add the hold on the run with that acknowledgement subject; return its number.

        `task`: the task's control subject, once this worker holds the task.
        """
        self._number += 1
        self._held[self._number] = reply, task
        return self._number

    def claimed(self, number: int, task: str) -> int:
        """Add a listed hold again if its `task` was not known; return its number from now on."""
        reply, known = self._held.get(number, ("", task))
        if known:
            return number
        self.remove(number)
        return self.add(reply, task)

    def remove(self, number: int) -> None:
        """Remove the hold with that number, if it is listed."""
        if self._held.pop(number, None) is None:
            return
        self._number += 1
        self._ended.append((self._number, number))
        if len(self._ended) > _REMEMBERED:
            end, _ = self._ended.popleft()
            self._forgotten = max(self._forgotten, end)

    def is_watched(self, now: float) -> bool:
        """Return whether a watcher has asked lately."""
        return now - self._queried_at < self._watched

    def is_known(self, number: int, now: float) -> bool:
        """Return whether a watcher would give the hold with that number back; 0: not listed."""
        return 0 < number <= self._known and self.is_watched(now)

    def changes(self, after: int, now: float) -> Holds:
        """Return what has changed since the answer with number `after`; 0: everything."""
        is_whole = after < max(self._forgotten, 1) or after > self._number
        self._known = known = 0 if is_whole else self._cut_short.get(after, after)
        self._queried_at = now
        newest = list[int]()
        for number in reversed(self._held):
            if number <= known:
                break
            newest.append(number)
        listed = newest[: -_MOST - 1 : -1]
        released = list[int]()
        for change, number in () if is_whole else reversed(self._ended):
            if change <= after:
                break
            if number <= known:
                released.append(number)
        return Holds(
            number=self._number if len(listed) == len(newest) else self._cut(listed[-1]),
            taken={number: self._held[number][0] for number in listed},
            tasks={number: task for number in listed if (task := self._held[number][1])},
            released=released,
            whole=is_whole,
        )

    def _cut(self, last: int) -> int:
        """Return the number of an answer of which `last` is the last hold, but not the newest.

        The number is this answer's only: it includes all ends until now. With that of the hold, the
        next question would also need each end since that hold, and start over without it.
        """
        answer = self._number + 1
        self._cut_short[answer] = last
        if len(self._cut_short) > _CUT_SHORT:
            oldest = next(iter(self._cut_short))
            del self._cut_short[oldest]
            self._forgotten = max(self._forgotten, oldest + 1)
        self._number += 2  # An answer with all holds has another number.
        return answer
