"""Server-sent events, frame by frame, as they come in pieces over HTTP.

Lines end with LF, CRLF or CR and with nothing else. Libraries that read text by lines also end
them at U+2028, U+2029 and U+0085, which JSON has within strings.
"""

from collections.abc import Iterator

_END = b"\n\n"
_MARK = b"\xef\xbb\xbf"
_ESCAPES = (
    ("\u0085".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)


class Frames:
    """Puts the frames of one stream together."""

    def __init__(self) -> None:
        """Begin at the beginning of a stream."""
        self._rest = bytearray()
        self._after_cr = False
        self._begun = False

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the frames that are whole with the next bytes, their lines ended with LF."""
        if not chunk:
            return
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        searched = max(len(self._rest) - 1, 0)
        self._rest += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._begun and len(self._rest) >= len(_MARK):
            self._begun = True
            if self._rest.startswith(_MARK):
                del self._rest[: len(_MARK)]
        begin = 0
        while (end := self._rest.find(_END, max(begin, searched))) >= 0:
            yield bytes(self._rest[begin:end])
            begin = end + len(_END)
        del self._rest[:begin]


def field(frame: bytes, name: bytes) -> bytes | None:
    """Return what a frame has under `name`, its lines put together; None: it has none."""
    found: list[bytes] = []
    for line in frame.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == name:
            found.append(value.removeprefix(b" "))
    return b"\n".join(found) if found else None


def plain(frame: bytes) -> bytes:
    """Return a frame of JSON whose lines everybody ends at the same places."""
    for character, escape in _ESCAPES:
        frame = frame.replace(character, escape)
    return frame
