"""Live messages that come while the log is being read."""

from collections import deque
from collections.abc import Iterator

from headrace.log.stored import Stored

LIMIT = 256 * 1024
"""Bytes of events that are kept; what exceeds it is read like the rest."""


class ReorderBuffer:
    """The newest live messages, without a hole between them, until reading has reached them.

    Without it a reader whose every read takes longer than the log is silent reads for ever: when
    it is done, more has come that only a read can bring.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        """Keep nothing yet, and never more than about `limit` bytes."""
        self._limit = limit
        self._kept: deque[Stored] = deque()
        self._size = 0

    @property
    def first(self) -> Stored | None:
        """The oldest one kept; None: nothing is."""
        return self._kept[0] if self._kept else None

    def keep(self, live: Stored) -> int:
        """Keep `live`; return up to which stream sequence the log is to be read all the same."""
        size = _size(live)
        if self._kept and live.previous != self._kept[-1].sequence:
            self._clear()
        if self._size + size > self._limit:
            self._clear()
        self._kept.append(live)
        self._size += size
        return self._kept[0].previous

    def following(self, sequence: int) -> Iterator[Stored]:
        """Give back what follows on stream sequence `sequence`, one after the other."""
        while self._kept and self._kept[0].sequence <= sequence:
            self._take()
        while self._kept and self._kept[0].previous == sequence:
            live = self._take()
            sequence = live.sequence
            yield live

    def _take(self) -> Stored:
        live = self._kept.popleft()
        self._size -= _size(live)
        return live

    def _clear(self) -> None:
        self._kept.clear()
        self._size = 0


def _size(live: Stored) -> int:
    return 0 if live.entry is None else sum(map(len, live.entry.lines))
