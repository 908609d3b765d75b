"""Reasons to close a WebSocket, as close codes of RFC 6455 and its registry."""

import asyncio
from typing import NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

SUBPROTOCOL = "headrace"
"""Subprotocol that a client offers together with a token; it changes nothing in the frames."""


def chosen(socket: WebSocket) -> str | None:
    """Return the subprotocol to accept; browsers disconnect if none of theirs is accepted."""
    return SUBPROTOCOL if SUBPROTOCOL in socket.scope.get("subprotocols", ()) else None


_TIMEOUT = 2.0
"""Seconds that a client has to receive a refusal."""

_LONGEST = 123
"""Maximum bytes of the reason in a close frame."""


class CloseReason(NamedTuple):
    """A close code and a readable reason."""

    code: int
    reason: str

    @property
    def text(self) -> str:
        """The reason, cut to the size of a close frame."""
        return self.reason.encode()[:_LONGEST].decode(errors="ignore")


def restarting(reason: str) -> CloseReason:
    """Return the closing for a stopping gateway: reconnect at once to any gateway, with cursors."""
    return CloseReason(1012, reason)


def try_later(reason: str) -> CloseReason:
    """Return the closing for a connection that the gateway can't accept now: retry later."""
    return CloseReason(1013, reason)


def refused(reason: str) -> CloseReason:
    """Return the closing for a connection where a retry does not help."""
    return CloseReason(1008, reason)


TEXT_ONLY = CloseReason(1003, "each frame must be text with one JSON object")
"""The client sent a frame that is not text."""


async def close_at_once(socket: WebSocket, closing: CloseReason) -> None:
    """Accept and close with the reason: browsers show no other answer than a close frame."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            await socket.accept(chosen(socket))
            await socket.close(closing.code, closing.text)
    except (WebSocketDisconnect, TimeoutError):
        pass
