"""A2A's events as server-sent events, framed once for all clients."""

from dataclasses import dataclass

from headrace.model.entry import Entry
from headrace_gateway.feeds import EntryRenderer

_ID = b"id: "
_RPC_TAIL = b',"result":%b}\n\n'


class JsonRpcFrames:
    """Frames whose ``data:`` is a JSON-RPC result; each client's request id is spliced in."""

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames, split where the client's id is inserted."""
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
    """Another renderer's frames, with the task's id spliced in before each cursor."""

    inner: EntryRenderer

    def render(self, entry: Entry, skip: int) -> tuple[bytes, ...]:
        """Return the frames, split where the task's id is inserted."""
        frames = b"".join(self.inner.render(entry, skip))
        if not frames:
            return (b"",)
        # JSON contains no line breaks, so this separator only occurs between frames.
        *ended, last = frames.removeprefix(_ID).split(b"\n\n" + _ID)
        return (_ID, *(one + b"\n\n" + _ID for one in ended), last)


def _rpc_head(log: bytes, generation: int) -> bytes:
    return b'id: %b:%d\ndata: {"jsonrpc":"2.0","id":' % (log, generation)


JSON_RPC = JsonRpcFrames()
