"""Floods of HTTP/2 frames: others are answered, and memory stays as it is."""

import asyncio
import itertools
import struct
from contextlib import suppress
from pathlib import Path

from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.protocols.a2a.grpc.test_malformed_calls import (
    END_HEADERS,
    HEADERS,
    SEND,
    answers,
    call,
    field,
    frame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)
PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 2, 3, 4, 6, 8, 9
MANY = 20_000
SECONDS = 0.5
MOST_MEMORY = 256 * 1024 * 1024
"""Bytes that floods may add to this process, which serves and sends them."""


def opened(stream: int, flags: int = END_HEADERS) -> bytes:
    """Return the head of a call whose message does not come."""
    head = call(SEND.encode(), stream)
    return head[:4] + bytes([flags]) + head[5 : 9 + int.from_bytes(head[:3])]


def indexed(name: bytes, value: bytes) -> bytes:
    """Return a field that both sides keep for later ones (RFC 7541, section 6.2.1)."""
    size = len(value) - 127
    length = b"\x7f" + bytes([size & 127 | 128, size >> 7])
    return b"\x40" + bytes([len(name)]) + name + length + value


STREAMS = range(1, 2 * MANY, 2)
FLOODS = {
    "pings": frame(PING, 0, 0, b"12345678") * MANY,
    "settings": frame(SETTINGS, 0, 0) * MANY,
    "windows": frame(WINDOW, 0, 0, struct.pack(">I", 1)) * MANY,
    "priorities": frame(PRIORITY, 0, 1, b"\0\0\0\3\x10") * MANY,
    "frames of no known kind": frame(250, 0, 0, b"x" * 100) * MANY,
    "empty data": opened(1) + frame(0, 0, 1) * MANY,
    "calls that are reset": b"".join(
        opened(stream) + frame(RESET, 0, stream, b"\0\0\0\x08") for stream in STREAMS
    ),
    "calls without their messages": b"".join(map(opened, STREAMS)),
    "a head that goes on": opened(1, 0) + frame(CONTINUATION, 0, 1, field(b"x", b"y" * 100)) * MANY,
    "a head that is small and means much": frame(
        HEADERS, END_HEADERS, 1, indexed(b"x", b"y" * 4_000) + b"\xbe" * 16_000
    )
    * 8,
}


def memory() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def discard(reader: asyncio.StreamReader) -> None:
    """Read all that the server says, until it closes the connection."""
    with suppress(ConnectionError):
        while await reader.read(65_536):
            pass


async def flooded(port: int, flood: bytes, *, reads: bool) -> int:
    """Repeat a flood for a while, or until the server closes the connection; return its bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.create_task(discard(reader)) if reads else None
    sent = 0
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            writer.write(PREFACE)
            for at in itertools.cycle(range(0, len(flood), 65_536)):
                writer.write(flood[at : at + 65_536])
                await writer.drain()
                sent += 65_536
    if reading is not None:
        reading.cancel()
    writer.transport.abort()
    return sent


async def test_floods_of_frames_keep_nobody_from_an_answer(
    gateway: str, settings: GatewaySettings
) -> None:
    assert gateway
    port = settings.grpc_port
    assert await answers(port)
    before = memory()
    floods = [
        asyncio.create_task(flooded(port, flood, reads=reads))
        for flood, reads in itertools.product(FLOODS.values(), (True, False))
    ]
    async with asyncio.timeout(60):
        while any(not flood.done() for flood in floods):
            assert await answers(port)
        sent = await asyncio.gather(*floods)
        assert await answers(port)
    assert min(sent) > 0
    assert memory() - before < MOST_MEMORY
