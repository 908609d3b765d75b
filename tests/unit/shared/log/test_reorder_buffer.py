"""The live messages that are kept until reading has reached them."""

import sys

from headrace.log.follow import ReorderBuffer
from headrace.log.read import LogMessage, from_message
from headrace.model.entry import Stamp
from headrace.model.task import WORKING
from tests.support.fake_bus import message

EVENT, LIVE = "headrace.event.0.t.a.x", "headrace.live.0.t.a.x"
SERVER = {
    "Nats-Stream": "EVENTS",
    "Nats-Subject": EVENT,
    "Nats-Sequence": "17",
    "Nats-Time-Stamp": "2026-01-02T03:04:05.123456789Z",
    "Nats-Last-Sequence": "12",
}


def test_a_buffer_takes_no_memory_before_and_after_it_keeps_messages() -> None:
    buffer = ReorderBuffer()
    empty = _held(buffer)
    live = from_message(
        message(LIVE, b"{}", Stamp("abcd0123", 5, "writer", WORKING, 1, 1).headers() | SERVER),
        EVENT,
    )
    assert buffer.keep(live) == 12
    assert _held(buffer) > empty
    assert list(buffer.following(12)) == [live]
    assert buffer.first is None
    assert _held(buffer) == empty < 200


def test_a_buffer_that_is_full_drops_what_it_keeps_and_begins_anew() -> None:
    """What is dropped is read from the log, up to the oldest message that is kept."""
    lives = [stored(number, b'{"text": "%b"}' % (b"x" * 1000)) for number in range(1, 6)]
    buffer = ReorderBuffer(limit=4000)
    assert [buffer.keep(live) for live in lives[:3]] == [0, 0, 0]
    assert buffer.keep(lives[3]) == lives[3].previous == 3
    assert list(buffer.following(3)) == lives[3:4]
    # What has been taken from it counts no more.
    assert [buffer.keep(live) for live in lives[:3]] == [0, 0, 0]


def test_a_buffer_keeps_only_messages_that_follow_each_other() -> None:
    one, three, four = (stored(number, b"{}") for number in (1, 3, 4))
    buffer = ReorderBuffer()
    assert [buffer.keep(live) for live in (one, three, four)] == [0, 2, 2]
    assert list(buffer.following(0)) == []
    assert list(buffer.following(2)) == [three, four]


def test_a_buffer_drops_what_has_been_read() -> None:
    lives = [stored(number, b"{}") for number in range(1, 4)]
    for read in range(5):
        buffer = ReorderBuffer()
        for live in lives:
            buffer.keep(live)
        assert list(buffer.following(read)) == lives[read:]
        assert buffer.first is None


def stored(sequence: int, body: bytes) -> LogMessage:
    """Return a live message that follows the one before it."""
    place = {"Nats-Sequence": str(sequence), "Nats-Last-Sequence": str(sequence - 1)}
    headers = Stamp("abcd0123", sequence, "writer", WORKING, 1, 1).headers()
    return from_message(message(LIVE, body, headers | SERVER | place), EVENT)


def _held(buffer: ReorderBuffer) -> int:
    return sum(sys.getsizeof(getattr(buffer, name)) for name in ReorderBuffer.__slots__)
