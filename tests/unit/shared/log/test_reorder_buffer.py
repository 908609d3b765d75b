"""The live messages that are kept until reading has reached them."""

import sys

from headrace.log.follow import ReorderBuffer
from headrace.log.read import from_message
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


def _held(buffer: ReorderBuffer) -> int:
    return sum(map(sys.getsizeof, vars(buffer).values()))
