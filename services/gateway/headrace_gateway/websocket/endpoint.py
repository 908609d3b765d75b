"""Where WebSockets are opened: ``stream`` under an agent's base, and at the root."""

import asyncio

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace_gateway.a2a.call import call_of
from headrace_gateway.a2a.problems import problem_of
from headrace_gateway.a2a.versions import SERVED, check_version
from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.services import Services
from headrace_gateway.websocket.closing import Closing, refused, try_later
from headrace_gateway.websocket.connection import Connection
from headrace_gateway.websocket.protocol import chosen

_PATIENCE = 2.0


class SocketEndpoint:
    """Opens WebSockets."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    def routes(self, prefix: str) -> list[WebSocketRoute]:
        """Return the route of an agent whose base is `prefix`."""
        return [WebSocketRoute(f"{prefix}/stream", self._open)]

    async def _open(self, socket: WebSocket) -> None:
        try:
            call = call_of(self._services, socket)
            check_version(socket, looks_like=SERVED[0])
            seat = self._services.seats.take(call.caller)
        except (TooManyStreams, TooManyStreamsOfOwner) as full:
            await close_at_once(socket, try_later(str(full)))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            await close_at_once(socket, refused(problem_of(error).message))
            return
        try:
            headers = [(name.encode(), value.encode()) for name, value in call.headers.items()]
            await socket.accept(chosen(socket), headers)
            await Connection(self._services, call, socket).serve()
        except WebSocketDisconnect:
            pass  # it went before it was accepted
        finally:
            seat.release()


async def close_at_once(socket: WebSocket, closing: Closing) -> None:
    """Say why nothing is served here; a browser shows no other answer than a close frame."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await socket.accept(chosen(socket))
            await socket.close(closing.code, closing.text)
    except (WebSocketDisconnect, TimeoutError):
        pass
