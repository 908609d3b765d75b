"""A message is taken for a token like the last one only if reading all of it finds the same."""

import random
from typing import Any, cast

import pytest

from headrace.jetstream.client import ReceivedMessage
from headrace.log.read import LogMessage, from_message
from headrace.log.token_frame import TokenFrame
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import UndecodableMessage
from headrace.model.events import TextChunks
from headrace.model.task import COMPLETED, WORKING

EVENT, LIVE = "headrace.event.0.t.a.x", "headrace.live.0.t.a.x"
PREVIOUS, GENERATION = 17, 6
"""Where the message that was read before stands: its sequence, and the generation after it."""
CHUNKS = TextChunks("task", "context", "answer", {"agui_event_type": "content_block"})


def headers(generation: int, previous: int, state: str = WORKING) -> bytes:
    stamp = Stamp("abcd0123", generation, "writer", state, 1, 1)
    server = {
        "Nats-Expected-Last-Subject-Sequence": str(previous),
        "Nats-Stream": "EVENTS",
        "Nats-Subject": EVENT,
        "Nats-Sequence": str(previous + 5),
        "Nats-Time-Stamp": "2026-01-02T03:04:05.123456789Z",
        "Nats-Last-Sequence": str(previous),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in (stamp.headers() | server).items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def line(text: str, generation: int = GENERATION) -> bytes:
    return CHUNKS.draft(text).line(generation)


BLOCK, LINE = headers(GENERATION, PREVIOUS), line("token")


def read(block: bytes, data: bytes) -> LogMessage | None:
    """Return what reading all of a message finds."""
    try:
        return from_message(ReceivedMessage(cast("Any", None), LIVE, "", data, block), EVENT)
    except UndecodableMessage:
        return None


def frame_of(block: bytes, data: bytes) -> TokenFrame | None:
    stored = read(block, data)
    return None if stored is None or stored.entry is None else TokenFrame.of(block, stored.entry)


@pytest.fixture
def frame() -> TokenFrame:
    found = frame_of(headers(GENERATION - 1, PREVIOUS - 5), line("hello", GENERATION - 1))
    assert found is not None
    return found


def next_entry(frame: TokenFrame, block: bytes, data: bytes) -> Entry | None:
    """Return the next entry, which must be what reading all of the message finds."""
    entry = frame.next_entry(block, data, PREVIOUS, GENERATION)
    if entry is not None:
        assert read(block, data) == LogMessage(entry.sequence, PREVIOUS, entry)
        assert (entry.generation, entry.last_generation) == (GENERATION, GENERATION)
    return entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "token",
        'a "quoted" one',
        "\\",
        '\\"',
        "é\u2028\x85😀",
        "\r\n\t",
        '","generation":',
        "x" * 9999,
    ],
)
def test_the_next_token_is_read_by_its_frame(frame: TokenFrame, text: str) -> None:
    entry = next_entry(frame, BLOCK, line(text))
    assert entry is not None
    assert entry.sequence == PREVIOUS + 5
    [event] = entry.events
    assert event["artifactUpdate"]["artifact"]["parts"][0]["text"] == text


def test_lines_of_other_writers_are_sent_in_one_line(frame: TokenFrame) -> None:
    entry = next_entry(frame, BLOCK, LINE.replace(b"token", "a\u2028\x85".encode()))
    assert entry is not None
    assert rb"a\u2028\u0085" in entry.lines[0]


@pytest.mark.parametrize(
    "block",
    [
        headers(GENERATION + 1, PREVIOUS),
        headers(GENERATION - 1, PREVIOUS),
        headers(GENERATION, PREVIOUS + 1),
        headers(GENERATION, PREVIOUS - 5),
        headers(GENERATION, PREVIOUS, COMPLETED),
        BLOCK.replace(b"abcd0123", b"abcd0124"),
        BLOCK.replace(b"Version: 2", b"Version: 9"),
        BLOCK.replace(b"Attempt: 1", b"Attempt: 2"),
        BLOCK.replace(EVENT.encode(), b"headrace.event.0.t.a.y"),
        BLOCK.replace(b"Generation: 6", b"Generation: 06"),
        BLOCK.replace(b"Sequence: 22", b"Sequence: -22"),
        BLOCK.replace(b"Sequence: 22", b"Sequence: "),
        BLOCK.replace(b"Sequence: 22", b"Sequence: " + b"2" * 20),
        BLOCK.replace(b"Sequence: 22", "Sequence: ٢".encode()),
        BLOCK.replace(b"05.123456789Z", b"05Z\r\nHeadrace-Generation: 99"),
        BLOCK.replace(b"05.123456789Z", b"05Z\r\nNats-Sequence: 99"),
        BLOCK.replace(b"05.123456789Z", b"05Z\r\nNats-Stream: OTHER"),
        BLOCK.replace(b"05.123456789Z", b"05Z\nHeadrace-State: TASK_STATE_COMPLETED"),
        BLOCK.replace(b"2026-01-02T03:04:05.123456789Z", b""),
        BLOCK.replace(b"Nats-Stream", b"Headrace-Generation: 9\r\nNats-Stream"),
        BLOCK.replace(b"NATS/1.0\r\n", b"NATS/1.0\r\nHeadrace-Generation: 9\r\n"),
        BLOCK.replace(b"NATS/1.0\r\n", b"NATS/1.0 503\r\n"),
        BLOCK[:-2] + b"Headrace-Step: {}\r\n\r\n",
        BLOCK[:-2],
        BLOCK[:60],
        b"",
    ],
)
def test_other_headers_are_not_the_next_ones(frame: TokenFrame, block: bytes) -> None:
    assert next_entry(frame, block, LINE) is None


@pytest.mark.parametrize(
    "data",
    [
        line("token", GENERATION + 1),
        LINE.replace(b"token", b'token"'),
        LINE.replace(b"token", b"token\\"),
        LINE.replace(b"token", b'a","b":"c'),
        LINE.replace(b"token", b'a"}]},"append":true},"statusUpdate":{"x":"'),
        LINE.replace(b'"token"', b"7"),
        LINE.replace(b'"token"', b"null"),
        LINE.replace(b'"token"', b' "token"'),
        LINE.replace(b'"token"', b'"token" '),
        LINE.replace(b'"token"', b'"'),
        LINE.replace(b'"token"', b""),
        LINE.replace(b"token", b"a\nb"),
        LINE.replace(b"token", b"a\rb"),
        LINE.replace(b"token", b"a\tb"),
        LINE.replace(b"token", b"\\ud800"),
        LINE.replace(b"token", b"\\x41"),
        LINE.replace(b"token", b"\xff\xfe"),
        LINE.replace(b"token", b"a\x00b"),
        LINE.replace(b"answer", b"answes"),
        LINE + b"\n" + line("token", GENERATION + 1),
        LINE + b" ",
        b" " + LINE,
        LINE[:-1],
        LINE[: LINE.index(b"token")],
        LINE[LINE.index(b"token") :],
        b"",
    ],
)
def test_another_line_is_not_the_next_one(frame: TokenFrame, data: bytes) -> None:
    assert next_entry(frame, BLOCK, data) is None


@pytest.mark.parametrize(
    ("block", "data"),
    [
        (headers(GENERATION, PREVIOUS, COMPLETED), LINE),
        (BLOCK, LINE + b"\n" + line("token", GENERATION + 1)),
        (BLOCK, LINE.replace(b"artifactUpdate", b"statusUpdate")),
        (BLOCK, LINE.replace(b'"text"', b'"data"')),
        (BLOCK, LINE.replace(b"6}}}", b"-6}}}")),
        (BLOCK, LINE.replace(b"6}}}", b"1.6}}}")),
        (BLOCK, LINE.replace(b"6}}}", b"1e6}}}")),
        (BLOCK, LINE.replace(b"6}}}", b"7}}}")),
        (BLOCK, line("x" * 9999)),
        (BLOCK.replace(b"Nats-Stream", b"Headrace-Checkpoint: {}\r\nNats-Stream"), LINE),
        (BLOCK.replace(b"Nats-Stream", b"Headrace-Generation: 6\r\nNats-Stream"), LINE),
        (BLOCK.replace(b"Nats-Stream", b"Nats-Stream: A\r\nNats-Stream"), LINE),
        (BLOCK.replace(b"Attempt: 1", b"Attempt:  1"), LINE),
        (headers(10**14, PREVIOUS), line("token", 10**14)),
    ],
)
def test_what_is_no_plain_token_has_no_frame(block: bytes, data: bytes) -> None:
    assert frame_of(block, data) is None


@pytest.mark.parametrize("place", [b'"metadata":{', b'"append":true', b'"parts":['])
def test_a_text_elsewhere_is_framed_as_the_first_one(place: bytes) -> None:
    def with_text(text: str, generation: int) -> bytes:
        more = {b'"metadata":{': b'"a\\"text":"b",', b'"append":true': b',"text":"b"'}
        added = place + more.get(place, b'{"text":"b"},')
        return line(text, generation).replace(place, added, 1)

    former = headers(GENERATION - 1, PREVIOUS - 5)
    frame = frame_of(former, with_text("hello", GENERATION - 1))
    assert frame is not None
    data = with_text("hello", GENERATION)
    assert next_entry(frame, BLOCK, data) is not None
    next_entry(frame, BLOCK, with_text("token", GENERATION))


def mutated(draw: random.Random, data: bytes) -> bytes:
    """Return `data` with one to three places changed, repeated or left out."""
    for _ in range(draw.randint(1, 3)):
        at, end = sorted(draw.choices(range(len(data) + 1), k=2))
        end = min(end, at + draw.choice([0, 1, 1, 2, 30]))
        piece = draw.choice(
            [b"", data[at:end] * 2, bytes([draw.randrange(256)]), b'"', b"\\", b"6"]
        )
        data = data[:at] + piece + data[end:]
    return data


def test_whatever_is_changed_nothing_is_read_that_is_no_entry(frame: TokenFrame) -> None:
    draw, found = random.Random(3), 0
    for _ in range(20_000):
        in_block = draw.random() < 0.5
        block = mutated(draw, BLOCK) if in_block else BLOCK
        found += next_entry(frame, block, LINE if in_block else mutated(draw, LINE)) is not None
    assert found > 100, "some changes concern the text or the time only"
