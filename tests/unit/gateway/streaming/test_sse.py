import json

import pytest

from headrace.model.entry import Entry, Stamp
from headrace.model.task import WORKING
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.a2a.versions import JSON_RPC
from headrace_gateway.streaming.sse import LOG_LINES, close_notice, frame


def three_events(generation: int = 4) -> Entry:
    lines = [b'{"n":%d}' % n for n in range(generation, generation + 3)]
    stamp = Stamp("log00000", generation, "writer", WORKING, 1, 1)
    return Entry(stamp, lines, 1, "")


def frames(data: bytes) -> list[tuple[str, dict[str, object]]]:
    assert data.endswith(b"\n\n")
    assert b"\r" not in data
    found = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        cursor, body = block.split("\n")
        found.append((cursor.removeprefix("id: "), json.loads(body.removeprefix("data: "))))
    return found


def test_rest_frames_are_the_logs_own_lines() -> None:
    data = b"".join(FeedBlock(three_events()).pieces(LOG_LINES, 0))
    assert frames(data) == [(f"log00000:{n}", {"n": n}) for n in (4, 5, 6)]


@pytest.mark.parametrize("request_id", [1, "a-b", None, 'quo"te'])
def test_json_rpc_frames_carry_each_clients_own_id(request_id: object) -> None:
    block = FeedBlock(three_events())
    for _ in range(3):  # rendered twice, spliced for every client
        data = json.dumps(request_id).encode().join(block.pieces(JSON_RPC, 0))
        expected = {"jsonrpc": "2.0", "id": request_id}
        assert frames(data) == [
            (f"log00000:{n}", expected | {"result": {"n": n}}) for n in (4, 5, 6)
        ]


@pytest.mark.parametrize("entry_renderer", [LOG_LINES, JSON_RPC])
@pytest.mark.parametrize("after", [0, 3, 4, 5])
def test_a_cursor_within_a_batch_gets_the_rest_of_it(entry_renderer: object, after: int) -> None:
    block = FeedBlock(three_events())
    assert isinstance(entry_renderer, type(LOG_LINES) | type(JSON_RPC))
    cursors = [cursor for cursor, _ in frames(b"1".join(block.pieces(entry_renderer, after)))]
    assert cursors == [f"log00000:{n}" for n in range(max(4, after + 1), 7)]


def test_a_batch_is_rendered_for_its_first_client_and_once_for_all_others() -> None:
    rendered = []

    class Counting:
        def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
            rendered.append(skip)
            return (b"%d" % entry.generation,)

    block, entry_renderer = FeedBlock(three_events()), Counting()
    assert [b"".join(block.pieces(entry_renderer, after)) for after in (0, 3, 4, 0, 0)] == [
        b"4"
    ] * 5
    assert rendered == [0, 0, 1], "the whole batch twice, and the part that one client needed"


def test_a_ready_frame_and_a_close_notice_are_well_formed() -> None:
    assert frame("log00000:9", b"{}") == b"id: log00000:9\ndata: {}\n\n"
    assert close_notice("two\nlines") == b": two lines\nretry: 500\n\n"
