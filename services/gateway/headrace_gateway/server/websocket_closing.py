"""Why a gateway closes a WebSocket, in the close codes of RFC 6455 and its registry."""

import asyncio
from typing import NamedTuple

from starlette.websockets import WebSocket, WebSocketDisconnect

SPOKEN = "headrace"
"""What a client offers that needs the place beside it for its token; all speak the same."""


def chosen(socket: WebSocket) -> str | None:
    """Return the subprotocol to answer with: browsers hang up on who takes none of theirs."""
    return SPOKEN if SPOKEN in socket.scope.get("subprotocols", ()) else None


_TIMEOUT = 2.0
"""Seconds that a client has to take a refusal."""

_LONGEST = 123
"""Bytes that a close frame has for the reason."""


class Closing(NamedTuple):
    """A close code and a reason to read."""

    code: int
    reason: str

    @property
    def text(self) -> str:
        """The reason, as much of it as a close frame takes."""
        return self.reason.encode()[:_LONGEST].decode(errors="ignore")


def restarting(reason: str) -> Closing:
    """The gateway stops: reconnect at once, here or elsewhere, with the cursors."""
    return Closing(1012, reason)


def try_later(reason: str) -> Closing:
    """The gateway can't take this connection now: try again after a moment."""
    return Closing(1013, reason)


def refused(reason: str) -> Closing:
    """Trying again does not help."""
    return Closing(1008, reason)


TEXT_ONLY = Closing(1003, "frames are text, one JSON object each")
"""The client sent what is no text."""


async def close_at_once(socket: WebSocket, closing: Closing) -> None:
    """Say why nothing is served here; a browser shows no other answer than a close frame."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            await socket.accept(chosen(socket))
            await socket.close(closing.code, closing.text)
    except (WebSocketDisconnect, TimeoutError):
        pass
