"""The media types of a run's stream: server-sent events, or the protocol's binary form."""

from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request

from headrace_gateway.protocols.agui.binary import encoded
from headrace_gateway.protocols.agui.errors import NotAcceptable
from headrace_gateway.protocols.agui.frame import AguiFrame, sse
from headrace_gateway.streaming.sse import EVENT_STREAM, EVENTS, HEADERS, BodyFormat


class Encoding(NamedTuple):
    """One form of a stream."""

    encode: Callable[[str, list[AguiFrame]], bytes]
    """Encodes frames, given the log id."""
    body: BodyFormat


SSE = Encoding(sse, EVENTS)

BINARY = "application/vnd.ag-ui.event+proto"
"""Media type of the binary form; clients compare it exactly."""

PROTO = Encoding(encoded, BodyFormat({**HEADERS, "content-type": BINARY}))


_RANGES = ("*/*", "text/*", EVENT_STREAM)


def encoding_for(request: Request) -> Encoding:
    """Return the encoding that the client accepts; without an Accept header, server-sent events.

    Raises:
        NotAcceptable: the client accepts only other media types.
    """
    accept = ",".join(request.headers.getlist("accept"))
    accepted = [_accepted(entry) for entry in accept.split(",") if entry.strip()]
    if BINARY in accepted:
        return PROTO
    if not accepted or any(media_type in _RANGES for media_type in accepted):
        return SSE
    raise NotAcceptable(f"accept: must allow {EVENT_STREAM} or {BINARY}")


def _accepted(entry: str) -> str:
    """Return an Accept entry's media range; empty if its quality is 0."""
    media_range, *parameters = (piece.strip().lower() for piece in entry.split(";"))
    return "" if any(_is_zero(parameter) for parameter in parameters) else media_range


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0.") == "" and "0" in value
