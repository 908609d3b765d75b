"""Server-sent events from a feed: LF framing, one ``id`` per event, no work done twice.

``id`` is the cursor ``<log>:<generation>``; a client that reconnects sends it back.
"""

from headrace.entry import Entry

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # Proxies buffer otherwise.
    "x-accel-buffering": "no",
}
"""What every event stream is sent with."""

KEEPALIVE = b": keep-alive\n\n"

_RETRY_MS = 500
_RPC_TAIL = b',"result":%b}\n\n'


def frame(cursor: str, data: bytes) -> bytes:
    """Return one event with its cursor."""
    return b"id: %b\ndata: %b\n\n" % (cursor.encode(), data)


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


def _rpc_head(log: bytes, generation: int) -> bytes:
    return b'id: %b:%d\ndata: {"jsonrpc":"2.0","id":' % (log, generation)


REST = RestDialect()
JSON_RPC = JsonRpcDialect()
