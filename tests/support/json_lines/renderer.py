"""Render events as lines, once for all clients."""

from dataclasses import dataclass

import orjson

from headrace.model.entry import Entry
from headrace_gateway.streaming.renderer import Interruption, Messages, SharedRenderer
from headrace_gateway.streaming.sse import BodyFormat

BODY = BodyFormat({"content-type": "application/x-ndjson", "cache-control": "no-store"}, b"\n")


@dataclass(frozen=True, slots=True)
class EntryLines:
    """One line for each event of the log."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the entry's lines, without the first `skip`."""
        log = entry.stamp.log
        lines = enumerate(entry.lines[skip:], entry.generation + skip)
        return (b"".join(line(f"{log}:{generation}", event) for generation, event in lines),)


class LineRenderer(SharedRenderer):
    """Reports an early end in a line of its own."""

    __slots__ = ()

    def interrupted(self, why: Interruption) -> Messages:
        """Return the line of an early end."""
        content = {"interrupted": why.cause.value, "reason": why.reason}
        return (orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE),)


LINES = EntryLines()


def line(cursor: str, event: bytes, *, recovered: bool = True) -> bytes:
    """Return the line of an event."""
    lost = b"" if recovered else b'"recovered":false,'
    return b'{%b"cursor":"%b","event":%b}\n' % (lost, cursor.encode(), event)
