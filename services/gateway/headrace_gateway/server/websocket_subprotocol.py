"""The subprotocol that a WebSocket is opened with, where its client asks for one."""

from starlette.websockets import WebSocket

SPOKEN = "headrace"
"""What a client offers that needs the place beside it for its token; all speak the same."""


def chosen(socket: WebSocket) -> str | None:
    """Return the subprotocol to answer with: browsers hang up on who takes none of theirs."""
    return SPOKEN if SPOKEN in socket.scope.get("subprotocols", ()) else None
