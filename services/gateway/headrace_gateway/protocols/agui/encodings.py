"""How frames go over HTTP: as server-sent events, or in the protocol's binary form."""

from collections.abc import Callable
from typing import NamedTuple

from headrace_gateway.protocols.agui.binary import encoded
from headrace_gateway.protocols.agui.frame import Frame, sse
from headrace_gateway.streaming.sse import EVENTS, HEADERS, Body


class Encoding(NamedTuple):
    """One form of a stream."""

    encode: Callable[[str, list[Frame]], bytes]
    """From the log id and frames to bytes."""
    body: Body


SSE = Encoding(sse, EVENTS)

BINARY = "application/vnd.ag-ui.event+proto"
"""Media type of the binary form; clients compare it letter by letter."""

PROTO = Encoding(encoded, Body({**HEADERS, "content-type": BINARY}))
