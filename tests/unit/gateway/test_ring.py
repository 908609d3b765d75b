import tracemalloc

import pytest

from headrace.model.entry import Entry, Stamp
from headrace.model.task import WORKING
from headrace_gateway.feeds import FeedBlock, FeedMemory, Ring


def entry(generation: int, events: int = 1, size: int = 10) -> Entry:
    stamp = Stamp("log00000", generation, "writer", WORKING, 1, 1)
    return Entry(stamp, [b"x" * size] * events, generation * 7, "")


def bounded(limit: int) -> Ring:
    return Ring(limit, FeedMemory(1_000_000))


def filled(ring: Ring, count: int, size: int = 10) -> Ring:
    for generation in range(1, count + 1):
        ring.append(FeedBlock(entry(generation, size=size)))
    return ring


def generations(blocks: list[FeedBlock] | None) -> list[int] | None:
    return None if blocks is None else [block.entry.generation for block in blocks]


def test_reads_what_lies_behind_a_generation() -> None:
    ring = filled(bounded(1000), 5)
    assert generations(ring.after(2, 1000)) == [3, 4, 5]
    assert generations(ring.after(5, 1000)) == []


def test_a_read_is_bounded_in_bytes_and_makes_progress() -> None:
    ring = filled(bounded(1000), 5)
    assert generations(ring.after(0, 25)) == [1, 2, 3]
    assert generations(ring.after(3, 1)) == [4]


def test_the_oldest_fall_out_at_the_bound_and_the_newest_never_does() -> None:
    ring = filled(bounded(50), 20)
    assert ring.after(0, 1000) is None
    newest = ring.after(19, 1000)
    assert generations(newest) == [20]
    assert generations(filled(bounded(5), 3, size=100).after(2, 1000)) == [3]


def test_a_ring_keeps_what_fits_however_much_went_through_it() -> None:
    ring = filled(bounded(100), 1000)
    assert len(ring.after(996, 1000) or ()) == 4


@pytest.mark.parametrize("sizes", [(100,), (100, 100), (10, 100), (40, 40, 40), (60, 1)])
def test_a_ring_above_its_limit_keeps_the_newest_block_and_what_it_counts(
    sizes: tuple[int, ...],
) -> None:
    memory = FeedMemory(1_000_000)
    ring = Ring(50, memory)
    for generation, size in enumerate(sizes, 1):
        ring.append(FeedBlock(entry(generation, size=size)))
        kept = ring.after(generation - 1, 1000)
        assert generations(kept) == [generation]
    assert ring.after(len(sizes), 1000) == []
    assert ring.memory == memory.used
    ring.clear()
    assert (ring.memory, memory.used) == (0, 0)


def test_a_generation_within_a_batch_finds_its_batch() -> None:
    ring = bounded(1000)
    ring.append(FeedBlock(entry(1, events=3)))
    ring.append(FeedBlock(entry(4, events=3)))
    assert generations(ring.after(1, 1000)) == [1, 4]
    assert generations(ring.after(4, 1000)) == [4]


def test_an_empty_ring_holds_nothing_of_the_past() -> None:
    assert bounded(10).after(0, 10) is None


class Doubling:
    """Renders an entry as twice its bytes."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's events after its first `skip`."""
        return tuple(line * 2 for line in entry.lines[skip:])


def test_the_rings_that_were_silent_longest_are_emptied_above_the_limit_of_all() -> None:
    memory = FeedMemory(10_000)
    rings = [Ring(100_000, memory) for _ in range(5)]
    for generation in range(1, 4):
        for ring in rings:
            ring.append(FeedBlock(entry(generation, size=1000)))
            assert memory.used <= 10_000
            assert memory.used == sum(each.memory for each in rings)
    assert rings[0].after(0, 10_000) is None
    assert generations(rings[4].after(2, 10_000)) == [3]


def test_a_ring_without_growth_between_two_looks_is_emptied() -> None:
    memory = FeedMemory(1 << 20)
    silent, busy = filled(Ring(100_000, memory), 1), filled(Ring(100_000, memory), 1)
    memory.drop_silent()
    assert [generations(ring.after(0, 1000)) for ring in (silent, busy)] == [[1], [1]]
    busy.append(FeedBlock(entry(2)))
    memory.drop_silent()
    assert (silent.after(0, 1000), memory.used) == (None, busy.memory)
    assert generations(busy.after(0, 1000)) == [1, 2]
    memory.drop_silent()
    assert memory.used == busy.memory == 0


def test_the_limit_of_all_empties_silent_rings_first() -> None:
    memory = FeedMemory(4_000)
    silent, busy = filled(Ring(100_000, memory), 1, size=1000), Ring(100_000, memory)
    memory.drop_silent()
    for generation in (1, 2, 3):
        busy.append(FeedBlock(entry(generation, size=500)))
    assert silent.after(0, 1000) is None
    assert generations(busy.after(0, 10_000)) == [1, 2, 3]


def test_an_entry_above_the_limit_of_all_is_not_kept() -> None:
    memory = FeedMemory(10_000)
    ring = filled(Ring(100_000, memory), 1, size=20_000)
    assert (memory.used, ring.after(0, 10_000)) == (0, None)


def test_renderings_count_while_their_blocks_are_kept() -> None:
    memory = FeedMemory(10_000)
    ring, block = Ring(100_000, memory), FeedBlock(entry(1, size=1000))
    ring.append(block)
    before = memory.used
    block.pieces(Doubling(), 0)
    assert memory.used == before
    block.pieces(Doubling(), 0)
    assert memory.used >= before + 2000
    ring.clear()
    block.pieces(Doubling(), 0)
    assert memory.used == 0


def test_what_is_counted_is_what_python_allocates() -> None:
    memory = FeedMemory(1 << 30)
    ring = Ring(1 << 30, memory)
    tracemalloc.start()
    try:
        for number in range(500):
            stamp = Stamp("log00000", 1 + 5 * number, f"writer{number}", WORKING, 1, 1)
            lines = [bytes(200 + number) for _ in range(5)]
            ring.append(FeedBlock(Entry(stamp, lines, number, f"2026-11-27T00:00:00.{number}Z")))
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * allocated < memory.used < 1.5 * allocated
