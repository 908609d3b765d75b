"""Where WebSockets are opened: ``stream`` under an agent's base, and at the root."""

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from headrace_gateway.call import Call
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.versions import SERVED, check_version
from headrace_gateway.protocols.a2a.websocket.connection import Connection
from headrace_gateway.services import Services
from headrace_gateway.websocket_opening import open_socket


class SocketEndpoint:
    """Opens WebSockets."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    def routes(self, prefix: str) -> list[WebSocketRoute]:
        """Return the route of an agent whose base is `prefix`."""
        return [WebSocketRoute(f"{prefix}/stream", self._open)]

    async def _open(self, socket: WebSocket) -> None:
        def serving(call: Call) -> Connection:
            check_version(socket, looks_like=SERVED[0])
            return Connection(self._services, call, socket)

        await open_socket(self._services, socket, serving, lambda error: problem_of(error).message)
