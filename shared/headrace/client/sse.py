"""Server-sent events, read from the bytes of a response."""

from typing import Any, NamedTuple

from headrace.model import json_text


class SseFrame(NamedTuple):
    """One event with data."""

    cursor: str
    """The ``id``, a cursor to continue after it; empty if it has none."""
    data: Any


class SseDecoder:
    """Decodes a stream whose lines end with LF, CRLF or CR.

    Lines are split as bytes: text in JSON may contain characters at which `str.splitlines` splits.
    """

    def __init__(self) -> None:
        """Start at the beginning of a stream."""
        self.is_interrupted = False
        """Whether the gateway said that it ends the stream early (with the field ``retry``)."""
        self._rest, self._is_after_cr = b"", False
        self._cursor = ""
        self._data = list[bytes]()

    def feed(self, piece: bytes) -> list[SseFrame]:
        """Return the frames that `piece` completes, without comments and frames without data."""
        if self._is_after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._is_after_cr = False
        if piece:
            self._is_after_cr = piece.endswith(b"\r")
        text = self._rest + piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = text.split(b"\n")
        frames = list[SseFrame]()
        for line in lines:
            self._read(line, frames)
        return frames

    def _read(self, line: bytes, frames: list[SseFrame]) -> None:
        if not line:
            if self._data:
                frames.append(SseFrame(self._cursor, json_text.decode(b"\n".join(self._data))))
            self._cursor, self._data = "", []
            return
        name, _, value = line.partition(b":")
        if name == b"id":
            self._cursor = value.strip().decode()
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"retry":
            self.is_interrupted = True
