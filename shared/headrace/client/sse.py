"""Server-sent events, read from the bytes of a response."""

from typing import Any, NamedTuple

import orjson


class SseFrame(NamedTuple):
    """One event with data."""

    cursor: str
    """The ``id``, a cursor to continue after it; empty if it has none."""
    data: Any


class SseDecoder:
    """Decodes a stream whose lines end with LF or CRLF.

    Lines are split as bytes: text in JSON may contain characters at which `str.splitlines` splits.
    """

    def __init__(self) -> None:
        """Start at the beginning of a stream."""
        self.is_interrupted = False
        """Whether the gateway said that it ends the stream early (with the field ``retry``)."""
        self._rest = b""
        self._cursor = ""
        self._data = list[bytes]()

    def feed(self, piece: bytes) -> list[SseFrame]:
        """Return the frames that `piece` completes, without comments and frames without data."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        frames = list[SseFrame]()
        for line in lines:
            self._read(line.removesuffix(b"\r"), frames)
        return frames

    def _read(self, line: bytes, frames: list[SseFrame]) -> None:
        if not line:
            if self._data:
                frames.append(SseFrame(self._cursor, orjson.loads(b"\n".join(self._data))))
            self._cursor, self._data = "", []
            return
        name, _, value = line.partition(b":")
        if name == b"id":
            self._cursor = value.strip().decode()
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"retry":
            self.is_interrupted = True
