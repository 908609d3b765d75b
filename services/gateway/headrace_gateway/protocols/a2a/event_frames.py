"""A2A's events as server-sent events, framed once however many clients read them."""

from dataclasses import dataclass

from headrace.model.entry import Entry
from headrace_gateway.feeds import EntryRenderer

_ID = b"id: "
_RPC_TAIL = b',"result":%b}\n\n'


class JsonRpcFrames:
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
    """Another renderer's frames; whose task they are of is spliced in before each cursor."""

    inner: EntryRenderer

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


JSON_RPC = JsonRpcFrames()
