"""A live message is read from its bytes as it would be from its headers."""

from typing import Any, cast

import pytest

from headrace.jetstream.client import ReceivedMessage, StreamPosition
from headrace.log.read import TOMBSTONE, LogMessage, from_message
from headrace.model.entry import VERSION, Stamp
from headrace.model.errors import UndecodableMessage
from headrace.model.task import WORKING
from tests.support.fake_bus import message

EVENT, LIVE = "headrace.event.0.t.a.x", "headrace.live.0.t.a.x"
STAMP = Stamp("abcd0123", 5, "writer", WORKING, 1, 1).headers()
SERVER = {
    "Nats-Stream": "EVENTS",
    "Nats-Subject": EVENT,
    "Nats-Sequence": "17",
    "Nats-Time-Stamp": "2026-01-02T03:04:05.123456789Z",
    "Nats-Last-Sequence": "12",
}


def received(headers: dict[str, str], data: bytes) -> ReceivedMessage:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return ReceivedMessage(cast("Any", None), LIVE, "", data, f"NATS/1.0\r\n{lines}\r\n".encode())


def both(headers: dict[str, str], data: bytes) -> tuple[LogMessage, LogMessage]:
    from_bytes = from_message(received(headers, data), EVENT)
    return from_bytes, from_message(message(LIVE, data, headers), EVENT)


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        (STAMP | SERVER, b'{"a":1}\n{"b":2}'),
        (STAMP | {"Headrace-Owner": "o"} | SERVER, b'{"a":1}'),
        (STAMP | {"Headrace-Checkpoint": '{"a": 1}'} | SERVER, b'{"a":1}'),
        (STAMP | {"Headrace-Log": "?"} | SERVER, b'{"a":1}'),
        (STAMP | SERVER, b"no JSON"),
        (STAMP | {VERSION: "99"} | SERVER, b'{"a":1}'),
        ({TOMBSTONE: "deleted"} | SERVER, b""),
        (STAMP | SERVER | {"Nats-Added-Later": "1"}, b'{"a":1}'),
        (dict(reversed(SERVER.items())) | STAMP, b'{"a":1}'),
        (SERVER, b""),
    ],
)
def test_a_message_is_the_same_from_its_bytes(headers: dict[str, str], data: bytes) -> None:
    from_bytes, from_headers = both(headers, data)
    assert from_bytes == from_headers
    assert (from_bytes.sequence, from_bytes.previous) == (17, 12)


def test_a_live_message_of_a_later_version_says_so() -> None:
    later = from_message(received(STAMP | {VERSION: "99"} | SERVER, b'{"a":1}'), EVENT)
    assert later.entry is None
    assert "99" in later.newer


def test_what_the_server_states_wins_over_what_a_writer_states() -> None:
    headers = b"Nats-Stream: S\r\nNats-Subject: s\r\nNats-Sequence: 1\r\nNats-Last-Sequence: 1\r\n"
    live = received(STAMP | SERVER, b'{"a":1}')
    live.block = live.block.replace(
        b"Nats-Stream: EVENTS\r\n", headers + b"Nats-Stream: EVENTS\r\n"
    )
    stored = from_message(live, EVENT)
    assert (stored.sequence, stored.previous) == (17, 12)
    assert stored == from_message(message(LIVE, b'{"a":1}', live.headers), EVENT)


def test_a_message_of_another_log_is_refused() -> None:
    with pytest.raises(UndecodableMessage, match=EVENT):
        from_message(received(STAMP | SERVER | {"Nats-Subject": "other"}, b"{}"), EVENT)


def test_a_place_is_only_read_from_what_nats_adds_last() -> None:
    assert StreamPosition.read(received(STAMP | SERVER, b"").block) == (
        EVENT,
        17,
        SERVER["Nats-Time-Stamp"],
        12,
    )
    assert StreamPosition.read(received(SERVER | STAMP, b"").block) is None
    assert StreamPosition.read(b"") is None
