"""Telling a client that reads slowly from one that takes nothing at all."""

from headrace_gateway.server.backlog import Backlog


class Stall:
    """How long a client has taken nothing of what waits for it.

    A slow one may take minutes over one write, so writes say nothing: bytes taken do.
    """

    __slots__ = ("_backlog", "_since", "_taken", "_written")

    def __init__(self, backlog: Backlog | None) -> None:
        """Judge by `backlog`; without one, by how long a write takes."""
        self._backlog = backlog
        self._written = self._taken = 0
        self._since: float | None = None

    @property
    def buffered(self) -> int:
        """Bytes that this process holds for the client; 0 if that can't be seen."""
        return self._backlog.buffered() if self._backlog is not None else 0

    def wrote(self, size: int) -> None:
        """Count `size` bytes that have been written."""
        self._written += size

    def seconds(self, now: float, *, writing: bool) -> float:
        """Return for how long the client has taken nothing; `now` is loop time in seconds."""
        waiting = self._backlog.size() if self._backlog is not None else int(writing)
        # The framing around what was written counts as not taken: a few bytes of each write.
        taken = self._written - waiting
        if not waiting or taken > self._taken or self._since is None:
            self._since = now if waiting else None
        self._taken = taken
        return now - self._since if self._since is not None else 0.0

    def end(self) -> bool:
        """Disconnect the client if that is possible; whatever is being written then returns."""
        if self._backlog is None:
            return False
        self._backlog.drop()
        return True
