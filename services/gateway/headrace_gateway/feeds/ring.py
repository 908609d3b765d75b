"""The recent entries of a feed, bounded in bytes."""

from bisect import bisect_left

from headrace_gateway.feeds.block import Block

_TRIM_TO = 0.75


class Ring:
    """Blocks in order, without holes; the oldest fall out when the bound is reached."""

    def __init__(self, limit: int) -> None:
        """Keep about `limit` bytes of events, and always the newest block."""
        self._limit = limit
        self._blocks: list[Block] = []
        self._size = 0

    def append(self, block: Block) -> None:
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

    def after(self, generation: int, most: int) -> list[Block] | None:
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


def _last_generation(block: Block) -> int:
    return block.entry.last_generation
