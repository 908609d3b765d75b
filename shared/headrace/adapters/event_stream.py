"""Parser for server-sent events that arrive in arbitrary chunks over HTTP.

Only LF, CRLF and CR end lines. Libraries that read text by lines also split at U+2028, U+2029 and
U+0085, which JSON strings may contain.
"""

from collections.abc import Iterator, Mapping

from headrace.model import json_text
from headrace.sdk.errors import MalformedOutput

EVENT_STREAM = "text/event-stream"

LARGEST = 64 * 1024 * 1024
"""Maximum bytes of an outside agent's answer, or of one event of a stream. A worker's runs share
its memory: an answer without end would end those of other agents, too."""

_END = b"\n\n"
_MARK = b"\xef\xbb\xbf"


def check_size(size: int) -> None:
    """Check the size of an answer, or of an event, of which `size` bytes have come.

    Raises:
        MalformedOutput: It is larger than `LARGEST`.
    """
    if size > LARGEST:
        raise MalformedOutput(f"the outside agent's answer has more than {LARGEST} bytes")


def check_encoding(headers: Mapping[str, str]) -> None:
    """Check that an answer is not compressed: it could expand to a thousand times its size.

    Raises:
        MalformedOutput: The answer is compressed.
    """
    encoding = headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        raise MalformedOutput(
            f"the outside agent's answer has the encoding {encoding[:100]!r}; allowed: identity"
        )


def has_events(headers: Mapping[str, str]) -> bool:
    """Return whether an answer is a stream of events."""
    return headers.get("Content-Type", "").lower().startswith(EVENT_STREAM)


class Frames:
    """Assembles the frames of one stream."""

    def __init__(self) -> None:
        """Start at the beginning of a stream."""
        self._rest = bytearray()
        self._after_cr = False
        self._has_started = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the frames that `chunk` completes, with LF line ends.

        Raises:
            MalformedOutput: The frame that follows them is too large.
        """
        if not chunk:
            return
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        searched = max(len(self._rest) - 1, 0)
        self._rest += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if not self._has_started and len(self._rest) >= len(_MARK):
            self._has_started = True
            if self._rest.startswith(_MARK):
                del self._rest[: len(_MARK)]
        begin = 0
        while (end := self._rest.find(_END, max(begin, searched))) >= 0:
            yield bytes(self._rest[begin:end])
            begin = end + len(_END)
        del self._rest[:begin]
        check_size(len(self._rest))


def field(frame: bytes, name: bytes) -> bytes | None:
    """Return the lines of a frame's field `name`, joined; None if it has none."""
    found: list[bytes] = []
    for line in frame.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == name:
            found.append(value.removeprefix(b" "))
    return b"\n".join(found) if found else None


def plain(frame: bytes) -> bytes:
    """Return a frame of JSON in which all parsers find the same lines, and whole text."""
    return json_text.without_halves(json_text.one_line(frame))
