"""Where WebSockets are opened: ``stream`` under an agent's base, and at the root."""

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from headrace_gateway.call import Call
from headrace_gateway.problems import problem_of
from headrace_gateway.protocols.a2a.variants import Variant
from headrace_gateway.protocols.a2a.versions import SERVED, check_version
from headrace_gateway.protocols.a2a.websocket.session import A2ASession
from headrace_gateway.services import Services
from headrace_gateway.streaming.websocket import Connection
from headrace_gateway.websocket_opening import open_socket


class SocketEndpoint:
    """Opens WebSockets."""

    def __init__(self, services: Services, variant: Variant) -> None:
        """Serve over `services`, or in that `variant`."""
        self._services, self._variant = services, variant

    def routes(self, prefix: str) -> list[WebSocketRoute]:
        """Return the route of an agent whose base is `prefix`."""
        return [WebSocketRoute(f"{prefix}/stream", self._open)]

    async def _open(self, socket: WebSocket) -> None:
        def session(call: Call, connection: Connection) -> A2ASession:
            check_version(socket, looks_like=SERVED[0])
            return A2ASession(self._services, self._variant, call, socket, connection)

        await open_socket(self._services, socket, session, lambda error: problem_of(error).message)
