"""Server-sent events from a feed: LF framing, one ``id`` per event, no work done twice.

``id`` is the cursor ``<log>:<generation>``; a client that reconnects sends it back.
"""

from dataclasses import dataclass

from headrace.model.entry import Entry
from headrace_gateway.feeds import Dialect

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # Proxies buffer otherwise.
    "x-accel-buffering": "no",
}
"""What every event stream is sent with."""

KEEPALIVE = b": keep-alive\n\n"

_RETRY_MS = 500
_ID = b"id: "
_RPC_TAIL = b',"result":%b}\n\n'


def frame(cursor: str, data: bytes, name: str = "") -> bytes:
    """Return one event with its cursor, and its name if it has one."""
    named = b"event: %b\n" % name.encode() if name else b""
    return b"id: %b\n%bdata: %b\n\n" % (cursor.encode(), named, data)


def farewell(reason: str) -> bytes:
    """Return what a stream that ends early says: why, and when to reconnect (milliseconds)."""
    return b": %b\nretry: %d\n\n" % (reason.replace("\n", " ").encode(), _RETRY_MS)


class RestDialect:
    """``data:`` is the log's own line."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Frame the entry's lines as they are."""
        log, first = entry.stamp.log.encode(), entry.generation
        return (
            b"".join(
                [
                    b"id: %b:%d\ndata: %b\n\n" % (log, first + offset, line)
                    for offset, line in enumerate(entry.lines)
                    if offset >= skip
                ]
            ),
        )


class JsonRpcDialect:
    """``data:`` is a JSON-RPC result; each client's request id is spliced in."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Cut in every frame where the client's id goes."""
        log, first, lines = entry.stamp.log.encode(), entry.generation, entry.lines
        pieces = [_rpc_head(log, first + skip)]
        pieces += [
            _RPC_TAIL % lines[offset] + _rpc_head(log, first + offset + 1)
            for offset in range(skip, len(lines) - 1)
        ]
        pieces.append(_RPC_TAIL % lines[-1])
        return tuple(pieces)


@dataclass(frozen=True, slots=True)
class OfTask:
    """Another dialect's frames; whose task they are of is spliced in before each cursor."""

    inner: Dialect

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Cut every frame where the task goes."""
        frames = b"".join(self.inner.render(entry, skip))
        if not frames:
            return (b"",)
        # In JSON no line can end: this is where frames begin and nothing else.
        *ended, last = frames.removeprefix(_ID).split(b"\n\n" + _ID)
        return (_ID, *(one + b"\n\n" + _ID for one in ended), last)


def _rpc_head(log: bytes, generation: int) -> bytes:
    return b'id: %b:%d\ndata: {"jsonrpc":"2.0","id":' % (log, generation)


REST = RestDialect()
JSON_RPC = JsonRpcDialect()
