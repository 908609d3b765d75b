"""Server-sent events in pieces."""

import pytest

from headrace.adapters.event_stream import Frames, field, has_events, plain

_STREAM = 'id: 1\ndata: a\ndata: b\n\n: hush\n\ndata:{"x":"\u2028\u2029\u0085"}\n\ndata: cut'


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_end_with_lf_crlf_or_cr_alone(size: int, end: str, mark: str) -> None:
    stream = (mark + _STREAM.replace("\n", end)).encode()
    frames, found = Frames(), list[bytes]()
    for at in range(0, len(stream), size):
        found += frames.split(stream[at : at + size])
    assert [field(frame, b"data") for frame in found] == [
        b"a\nb",
        None,
        '{"x":"\u2028\u2029\u0085"}'.encode(),
    ]
    assert [field(frame, b"id") for frame in found] == [b"1", None, None]
    assert plain(found[2]) == rb'data:{"x":"\u2028\u2029\u0085"}'


def test_a_frame_is_handed_on_when_its_last_byte_is_there() -> None:
    assert list(Frames().split(b"data: a\r\r")) == [b"data: a"]
    assert list(Frames().split(b"data: a\r\n\r\n")) == [b"data: a"]


@pytest.mark.parametrize(
    ("media_type", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json", False),
        (None, False),
    ],
)
def test_media_types_are_read_in_any_case(media_type: str | None, *, is_stream: bool) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    assert has_events(headers) is is_stream
