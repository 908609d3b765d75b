"""Server-sent events, however their bytes are cut."""

import pytest

from headrace.client.sse import SseDecoder, SseFrame

STREAM = (
    ': hello\n\nid: log1:1\ndata: {"text": "a\u2028b\x85c"}\n\n'
    'event: x\r\nid: log1:2\r\ndata: {"two":\r\ndata: 2}\r\n\r\n'
    'data: {"no": "cursor"}\n\nid: log1:9\n\n'
    'id: log1:10\rdata: {"cr":\rdata: "\u2029"}\r\rid: log1:11\r\ndata: 3\r\n\r\n'
).encode()
FRAMES = [
    SseFrame("log1:1", {"text": "a\u2028b\x85c"}),
    SseFrame("log1:2", {"two": 2}),
    SseFrame("", {"no": "cursor"}),
    SseFrame("log1:10", {"cr": "\u2029"}),
    SseFrame("log1:11", 3),
]


@pytest.mark.parametrize("size", [1, 7, len(STREAM)])
def test_frames_are_the_same_however_they_are_cut(size: int) -> None:
    decoder, frames = SseDecoder(), list[SseFrame]()
    for start in range(0, len(STREAM), size):
        frames += decoder.feed(STREAM[start : start + size])
    assert frames == FRAMES


def test_a_truncated_frame_is_none() -> None:
    assert SseDecoder().feed(STREAM[:40]) == []


def test_an_early_end_is_noticed() -> None:
    decoder = SseDecoder()
    decoder.feed(STREAM)
    before = decoder.is_interrupted
    decoder.feed(b": the gateway stops\nretry: 500\n\n")
    assert (before, decoder.is_interrupted) == (False, True)
