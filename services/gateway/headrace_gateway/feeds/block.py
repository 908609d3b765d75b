"""One entry of a feed, with what it looks like in each dialect that somebody reads it in."""

from typing import Protocol

from headrace.model.entry import Entry


class Dialect(Protocol):
    """A stateless rendering of entries into a stream's bytes; one shared object per dialect."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames.

        The bytes are cut where each client's own envelope (a JSON-RPC id) goes between.
        """


class Block:
    """An entry, rendered at most once per dialect however many clients read it."""

    __slots__ = ("_rendered", "entry", "size")

    def __init__(self, entry: Entry) -> None:
        """Hold `entry`."""
        self.entry = entry
        self.size = sum(map(len, entry.lines))
        self._rendered: dict[Dialect, tuple[bytes, ...]] = {}

    def render(self, dialect: Dialect, splice: bytes, after: int) -> bytes:
        """Return the frames of the events behind generation `after`, `splice` in each envelope."""
        return splice.join(self.pieces(dialect, after))

    def pieces(self, dialect: Dialect, after: int) -> tuple[bytes, ...]:
        """Return what the dialect makes of the events behind generation `after`."""
        skip = after + 1 - self.entry.generation
        if skip > 0:
            return dialect.render(self.entry, skip)
        pieces = self._rendered.get(dialect)
        if pieces is None:
            pieces = self._rendered[dialect] = dialect.render(self.entry, 0)
        return pieces
