"""Streams over one WebSocket, by a client that keeps frames as they come and judges them later."""

import asyncio
import struct
import time
from typing import cast
from urllib.parse import urlsplit

import orjson

from tests.benchmarks.bindings import message
from tests.benchmarks.measure import Place, Sample
from tests.benchmarks.whole import BESIDE_CHUNKS, Broken, Json, check_events
from tests.support.waiting import eventually

_END = b'"end":true}'
_TIMEOUT = 120.0
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Socket(asyncio.Protocol):
    """One WebSocket; its frames are told apart when the clock has stopped."""

    def __init__(self) -> None:
        """Connect with the loop's `create_connection`."""
        self._transport: asyncio.Transport | None = None
        self._pieces = list[bytes]()
        self._tail = b""
        self.ends = 0
        """How many streams have ended."""
        self.wanted = asyncio.Event()
        """Set when as many have as were asked for."""
        self.asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        self._pieces.append(data)
        overlapping = self._tail + data
        self.ends += overlapping.count(_END)
        self._tail = overlapping[1 - len(_END) :]
        if self.asked and self.ends >= self.asked:
            self.wanted.set()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    async def upgraded(self) -> None:
        """Return when the server has agreed to speak WebSocket."""

        async def has_answered() -> bool:
            return b"\r\n\r\n" in b"".join(self._pieces)

        await eventually(has_answered, "the server answers")
        got = b"".join(self._pieces)
        if not got.startswith(b"HTTP/1.1 101"):
            raise Broken(f"no WebSocket: {got[:100]!r}")
        self._pieces = [got.partition(b"\r\n\r\n")[2]]

    def texts(self) -> list[bytes]:
        """Return the text of every frame that came."""
        data, at, texts = b"".join(self._pieces), 0, list[bytes]()
        while at < len(data):
            kind, size, at = data[at] & 0x0F, data[at + 1], at + 2
            if size == 126:
                (size,), at = struct.unpack_from("!H", data, at), at + 2
            elif size == 127:
                (size,), at = struct.unpack_from("!Q", data, at), at + 8
            if kind == 1:
                texts.append(data[at : at + size])
            at += size
        return texts


def _frame(text: bytes) -> bytes:
    """Return `text` as a client's frame, with a mask that changes nothing."""
    assert len(text) < 2**16
    return b"\x81" + bytes([0x80 | 126]) + struct.pack("!H", len(text)) + bytes(4) + text


async def one(place: Place) -> Sample:
    """Events per second of a single stream over a WebSocket."""
    return await _streams(place, 1, place.sizes.one_stream[place.contestant.name])


async def many(place: Place) -> Sample:
    """Events per second of many streams over a single WebSocket, all of them together."""
    return await _streams(
        place, place.sizes.streams, place.sizes.many_streams[place.contestant.name]
    )


async def _streams(place: Place, count: int, chunks: int) -> Sample:
    url = urlsplit(place.contestant.urls[0])
    loop = asyncio.get_running_loop()
    _, socket = await loop.create_connection(Socket, url.hostname or "", url.port or 80)
    try:
        async with asyncio.timeout(_TIMEOUT):
            socket.write(_handshake(url.netloc, f"{place.contestant.base}/stream"))
            await socket.upgraded()
            begun, socket.asked = time.perf_counter(), count
            orders = [{"id": at, "send": message(str(chunks))} for at in range(count)]
            socket.write(b"".join(_frame(orjson.dumps(order)) for order in orders))
            await socket.wanted.wait()
            seconds = time.perf_counter() - begun
    finally:
        socket.close()
    done = _checked(socket.texts(), count, chunks)
    return Sample(done / seconds, done)


def _handshake(host: str, path: str) -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {_KEY}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _checked(texts: list[bytes], count: int, chunks: int) -> int:
    """Return how many events came, if every stream is whole."""
    streams = {at: list[Json]() for at in range(count)}
    for each in map(orjson.loads, texts):
        if "event" in each:
            streams[each["id"]].append(each["event"])
        elif not each.get("end"):
            raise Broken(f"neither an event nor an end: {each}")
    for events in streams.values():
        check_events(events, chunks)
    return count * (chunks + BESIDE_CHUNKS)
