"""Pieces of text wait as they are, and are encoded as any other event when they are sent."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from headrace import Text
from headrace.model.events import Draft, TextChunks, fits_line
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import TOKEN, Encoder
from headrace_worker.pending_messages import BATCH, PendingMessage, PendingMessages

TEXTS = st.text(st.characters(), min_size=1, max_size=TOKEN).filter(fits_line)
OTHER = Draft(b'{"other":', b"}")


def chunks(block: str = "text-1") -> TextChunks:
    return TextChunks("0-task", "context", block, {"agui_kind": "text"})


def sent(pending: PendingMessages) -> list[PendingMessage]:
    found: list[PendingMessage] = []
    while pending.events:
        found.append(pending.pop())
    assert pending._bytes == 0
    return found


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 10**12))
def test_pieces_are_the_lines_that_they_would_be_one_by_one(texts: list[str], first: int) -> None:
    one_by_one = [chunks().draft(text).line(at) for at, text in enumerate(texts, first)]
    assert chunks().lines(texts, first) == b"\n".join(one_by_one)


@given(st.text(st.characters(), min_size=1, max_size=8))
def test_a_text_that_breaks_no_line_is_one_line(text: str) -> None:
    """JSON leaves all that is not ASCII as it is, and some readers end a line at some of it."""
    assert not fits_line(text) or len(chunks().lines([text], 1).decode().splitlines()) == 1


def test_what_json_cannot_say_is_not_taken_as_it_is() -> None:
    encoder = Encoder("0-task", "ctx", RunIds("0-task", 1))
    encoder.drafts(Text("begun"))
    for text in ("more", "a\n", "caf\N{LATIN SMALL LETTER E WITH ACUTE}\n", "\u200d\xa0"):
        assert encoder.continued(text) is not None
    for text in ("", "half \ud800", "a\u2028b", "a\x85b", "x" * (TOKEN + 1)):
        assert encoder.continued(text) is None


@given(st.lists(st.one_of(TEXTS, st.just(None), st.just(0)), max_size=30))
def test_pieces_and_events_stay_in_order_in_any_mixture(offered: list[str | int | None]) -> None:
    """None: an event; 0: text of another block."""
    pending, expected = PendingMessages(100_000, 1000, 10**6), list[bytes]()
    blocks = [chunks(), chunks("text-2")]
    for generation, one in enumerate(offered, 1):
        if one is None:
            pending.put(OTHER)
            expected.append(OTHER.line(generation))
        else:
            block, text = (blocks[1], "zero") if isinstance(one, int) else (blocks[0], one)
            pending.put_text(block, text)
            expected.append(block.draft(text).line(generation))
    assert pending.events == len(offered)
    lines: list[bytes] = []
    for message in sent(pending):
        lines += message.payload(len(lines) + 1).split(b"\n")
    assert lines == expected


@given(st.lists(TEXTS, min_size=1, max_size=20), st.integers(0, 20))
def test_the_last_ones_can_be_dropped(texts: list[str], count: int) -> None:
    pending, block = PendingMessages(100_000, 1000, 10**6), chunks()
    for text in texts:
        pending.put_text(block, text)
    assert pending.drop_last(count) == min(count, len(texts))
    kept = texts[: max(len(texts) - count, 0)]
    assert b"\n".join(m.payload(1) for m in sent(pending)) == (
        block.lines(kept, 1) if kept else b""
    )


@given(TEXTS)
def test_what_waits_is_counted_with_no_less_than_it_takes(text: str) -> None:
    pending, block = PendingMessages(100_000, 1000, 10**6), chunks()
    pending.put_text(block, text)
    assert pending._bytes >= max(sys.getsizeof(text) + 8, len(block.lines([text], 10**15)))


def test_a_message_has_at_most_so_many_pieces_and_bytes() -> None:
    pending, block = PendingMessages(100_000, 10**6, 10**9), chunks()
    for _ in range(2 * BATCH + 1):
        pending.put_text(block, "x")
    found = sent(pending)
    assert sum(message.events for message in found) == 2 * BATCH + 1
    assert max(message.events for message in found) <= BATCH
    assert all(len(message.payload(10**15)) <= 100_000 for message in found)


def test_a_message_that_is_put_back_is_the_next_one() -> None:
    pending, block = PendingMessages(100_000, 1000, 10**6), chunks()
    pending.put_text(block, "one")
    first = pending.pop()
    pending.put_text(block, "two")
    first.encode_texts()  # as for an append that is no direct one
    pending.put_back(first)
    assert [message.payload(1) for message in sent(pending)] == [
        block.lines(["one"], 1),
        block.lines(["two"], 1),
    ]
