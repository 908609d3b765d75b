"""Rows of a task's log: each event as it is stored, with what its entry says of it."""

from dataclasses import dataclass

import orjson

from headrace.model.cursor import Cursor
from headrace.model.entry import Entry
from headrace_gateway.feeds import EntryRenderer, FeedBlock
from headrace_gateway.streaming.sse import frame

_TYPES = ("task", "message", "statusUpdate", "artifactUpdate")
_WRITERS = {"input": "gateway"}
"""Kinds of writers that are called something else in their ids."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A row per event, as JSON."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the rows of the entry's events after the first `skip`."""
        stamp = entry.stamp
        writer = orjson.dumps({"kind": _kind(entry), "id": stamp.writer})
        shared = b'"time":"%b","writer":%b,"run":%d,"attempt":%d,"state":"%b"' % (
            entry.time.encode(),
            writer,
            stamp.run,
            stamp.attempt,
            stamp.state.encode(),
        )
        return tuple(
            b'{"generation":%d,"cursor":"%b",%b,"type":"%b","event":%b}'
            % (
                generation,
                str(Cursor(stamp.log, generation)).encode(),
                shared,
                _type(line).encode(),
                line,
            )
            for generation, line in enumerate(entry.lines[skip:], entry.generation + skip)
        )


@dataclass(frozen=True, slots=True)
class RowFrames:
    """The same rows as server-sent events, once for all clients."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames of the entry's events after the first `skip`."""
        log, first = entry.stamp.log, entry.generation + skip
        rows = enumerate(ROWS.render(entry, skip), first)
        return (b"".join([frame(str(Cursor(log, at)), row) for at, row in rows]),)


ROWS: EntryRenderer = Rows()
ROW_FRAMES: EntryRenderer = RowFrames()


def rows_after(blocks: list[FeedBlock], after: int) -> list[bytes]:
    """Return the rows of the events in `blocks` after generation `after`."""
    # Not kept with the blocks: a page is read once.
    return [row for block in blocks for row in ROWS.render(block.entry, _skip(block.entry, after))]


def _skip(entry: Entry, after: int) -> int:
    return max(0, after + 1 - entry.generation)


def _kind(entry: Entry) -> str:
    """Return what wrote the entry: a worker, or by the name in its id."""
    if entry.stamp.attempt:
        return "worker"
    name = entry.stamp.writer.rpartition("-")[0]
    return _WRITERS.get(name, name) or "unknown"


def _type(line: bytes) -> str:
    return next((name for name in orjson.loads(line) if name in _TYPES), "unknown")
