"""The recent entries of a feed, bounded in bytes, each rendered once for all clients."""

from bisect import bisect_left
from typing import Protocol

from headrace.model.entry import Entry


class EntryRenderer(Protocol):
    """Renders entries into a stream's bytes, without state: one object for all clients."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip` as frames.

        The bytes are cut where each client's own envelope (a JSON-RPC id) goes between.
        """


class FeedBlock:
    """An entry, rendered at most once by each entry renderer however many clients read it."""

    __slots__ = ("_rendered", "entry", "size")

    def __init__(self, entry: Entry) -> None:
        """Hold `entry`."""
        self.entry = entry
        self.size = sum(map(len, entry.lines))
        self._rendered: dict[EntryRenderer, tuple[bytes, ...]] = {}

    def render(self, entry_renderer: EntryRenderer, splice: bytes, after: int) -> bytes:
        """Return the frames of the events behind generation `after`, `splice` in each envelope."""
        return splice.join(self.pieces(entry_renderer, after))

    def pieces(self, entry_renderer: EntryRenderer, after: int) -> tuple[bytes, ...]:
        """Return what `entry_renderer` makes of the events behind generation `after`."""
        skip = after + 1 - self.entry.generation
        if skip > 0:
            return entry_renderer.render(self.entry, skip)
        pieces = self._rendered.get(entry_renderer)
        if pieces is None:
            pieces = self._rendered[entry_renderer] = entry_renderer.render(self.entry, 0)
        return pieces


_TRIM_TO = 0.75


class Ring:
    """Blocks in order, without holes; the oldest fall out when the bound is reached."""

    def __init__(self, limit: int) -> None:
        """Keep about `limit` bytes of events, and always the newest block."""
        self._limit = limit
        self._blocks: list[FeedBlock] = []
        self._size = 0

    def append(self, block: FeedBlock) -> None:
        """Take the next block."""
        self._blocks.append(block)
        self._size += block.size
        if self._size > self._limit:
            self._trim()

    def _trim(self) -> None:
        # Trimming well below the limit makes the shift of the list rare.
        drop = 0
        while self._size > self._limit * _TRIM_TO and drop < len(self._blocks) - 1:
            self._size -= self._blocks[drop].size
            drop += 1
        del self._blocks[:drop]

    def after(self, generation: int, most: int) -> list[FeedBlock] | None:
        """Return blocks with events behind `generation`, about `most` bytes; None: fallen out."""
        blocks = self._blocks
        if not blocks or blocks[0].entry.generation > generation + 1:
            return None
        start = end = bisect_left(blocks, generation + 1, key=_last_generation)
        size = 0
        while end < len(blocks) and size < most:
            size += blocks[end].size
            end += 1
        return blocks[start:end]


def _last_generation(block: FeedBlock) -> int:
    return block.entry.last_generation
