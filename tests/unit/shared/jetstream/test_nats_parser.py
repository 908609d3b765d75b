"""Our parser hands on what nats-py's does, wherever the bytes were cut."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from headrace.jetstream.client import FastParser, ReceivedMessage

HEADERS = b"NATS/1.0\r\nHeadrace-Log: abcdefgh\r\nOdd: \xc3\xa9: x\r\n\r\n"
BODY = b'{"text":"\\r\\n"}\r\nMSG a 1 2\r\n'
SAID = [
    b"HMSG a.b 7 re.ply %d %d\r\n%b%b\r\n" % (len(HEADERS), len(HEADERS + BODY), HEADERS, BODY),
    b"HMSG a.b 7 %d %d\r\n%b\r\n" % (len(HEADERS), len(HEADERS), HEADERS),
    b"MSG foo 9 5\r\nhello\r\n",
    b"MSG foo 9 rep 0\r\n\r\n",
    b"PING\r\n",
    b"PONG\r\n",
    b"+OK\r\n",
    b"-ERR 'Some Trouble'\r\n",
    b'INFO {"server_id":"x"} \r\n',
]


class Heard:
    """What a client is told by its parser."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.stats = {"in_msgs": 0, "in_bytes": 0}

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, None]]:
        async def called(*output: object) -> None:
            self.calls.append((name, *(each or b"" for each in output)))

        return called


async def heard(kind: type[Parser], pieces: list[bytes]) -> list[tuple[Any, ...]]:
    client = Heard()
    parser = kind(client)
    for piece in pieces:
        await parser.parse(piece)
    return client.calls


async def test_the_same_is_received_wherever_the_bytes_are_cut() -> None:
    draw = random.Random(5)
    stream = b"".join(draw.choices(SAID, k=500))
    pieces = []
    while stream:
        size = draw.choice([1, 2, 7, 100, 4000])
        pieces.append(stream[:size])
        stream = stream[size:]
    received = await heard(FastParser, pieces)
    assert received == await heard(Parser, pieces)
    assert len(received) > 400


async def test_a_subject_may_have_white_space_that_nats_takes_for_none() -> None:
    for subject in (b"a.\x0bv", b"a.\x0c", b"\x0b", b"a.\x1c\x1d", "a.\u00a0".encode()):
        message = b"MSG %b 9 2\r\n{}\r\n" % subject
        pushed = b"MSG %b 9 re.ply 2\r\n{}\r\n" % subject
        assert await heard(FastParser, [message, pushed]) == [
            ("_process_msg", 9, subject, b"", b"{}", b""),
            ("_process_msg", 9, subject, b"re.ply", b"{}", b""),
        ]


async def test_after_a_reset_nothing_is_left_of_what_was_begun() -> None:
    client = Heard()
    parser = FastParser(client)
    await parser.parse(SAID[0][:40])
    parser.reset()
    await parser.parse(SAID[2])
    assert client.calls == [("_process_msg", 9, b"foo", b"", b"hello", b"")]


class WaitingClient(Heard):
    """Waits in each PING until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()

    async def _process_ping(self) -> None:
        await self.may_go_on.wait()


async def test_input_from_before_a_reset_is_not_parsed_after_it() -> None:
    client = WaitingClient()
    parser = FastParser(client)
    former = asyncio.create_task(parser.parse(b"PING\r\n" + SAID[3] + SAID[0][:40]))
    await asyncio.sleep(0)
    parser.reset()
    await parser.parse(SAID[2][:14])
    client.may_go_on.set()
    await former
    await parser.parse(SAID[2][14:])
    assert client.calls == [("_process_msg", 9, b"foo", b"", b"hello", b"")]


async def test_what_no_server_sends_is_an_error() -> None:
    with pytest.raises(ProtocolError):
        await heard(FastParser, [b"MSG foo bar baz\r\n"])
    with pytest.raises(ProtocolError):
        await heard(FastParser, [b"NONSENSE\r\n"])


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        (b"", None),
        (b"NATS/1.0\r\n\r\n", None),
        (b"NATS/1.0 404 No Messages\r\n\r\n", {"Status": "404", "Description": "No Messages"}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (
            b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Stream: 7\r\n\r\n",
            {"Status": "100", "Description": "Idle Heartbeat", "Nats-Last-Stream": "7"},
        ),
        (HEADERS, {"Headrace-Log": "abcdefgh", "Odd": "é: x"}),
    ],
)
def test_headers_are_read_when_requested(block: bytes, headers: dict[str, str] | None) -> None:
    assert ReceivedMessage(None, "a", "", b"", block).headers == headers  # type: ignore[arg-type]
