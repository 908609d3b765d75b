from headrace.model.entry import Entry, Stamp
from headrace.model.task import WORKING
from headrace_gateway.feeds import FeedBlock, Ring


def entry(generation: int, events: int = 1, size: int = 10) -> Entry:
    stamp = Stamp("log00000", generation, "writer", WORKING, 1, 1)
    return Entry(stamp, [b"x" * size] * events, generation * 7, "")


def filled(ring: Ring, count: int, size: int = 10) -> Ring:
    for generation in range(1, count + 1):
        ring.append(FeedBlock(entry(generation, size=size)))
    return ring


def generations(blocks: list[FeedBlock] | None) -> list[int] | None:
    return None if blocks is None else [block.entry.generation for block in blocks]


def test_reads_what_lies_behind_a_generation() -> None:
    ring = filled(Ring(1000), 5)
    assert generations(ring.after(2, 1000)) == [3, 4, 5]
    assert generations(ring.after(5, 1000)) == []


def test_a_read_is_bounded_in_bytes_and_makes_progress() -> None:
    ring = filled(Ring(1000), 5)
    assert generations(ring.after(0, 25)) == [1, 2, 3]
    assert generations(ring.after(3, 1)) == [4]


def test_the_oldest_fall_out_at_the_bound_and_the_newest_never_does() -> None:
    ring = filled(Ring(50), 20)
    assert ring.after(0, 1000) is None
    newest = ring.after(19, 1000)
    assert generations(newest) == [20]
    assert generations(filled(Ring(5), 3, size=100).after(2, 1000)) == [3]


def test_a_generation_within_a_batch_finds_its_batch() -> None:
    ring = Ring(1000)
    ring.append(FeedBlock(entry(1, events=3)))
    ring.append(FeedBlock(entry(4, events=3)))
    assert generations(ring.after(1, 1000)) == [1, 4]
    assert generations(ring.after(4, 1000)) == [4]


def test_an_empty_ring_holds_nothing_of_the_past() -> None:
    assert Ring(10).after(0, 10) is None
