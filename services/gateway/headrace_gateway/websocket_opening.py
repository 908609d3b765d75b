"""What every WebSocket passes before it is served: who asks, which agent, whether there is room."""

from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace_gateway.call import SocketCalls
from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.server.http_protocol import HOLD_BY
from headrace_gateway.server.websocket_closing import chosen, close_at_once, refused, try_later
from headrace_gateway.services import Services
from headrace_gateway.streaming.websocket import Session, SocketConnection


async def open_socket(
    services: Services,
    socket: WebSocket,
    begin: Callable[[SocketCalls, SocketConnection], Session],
    reason: Callable[[Exception], str],
) -> None:
    """Accept `socket` and serve it, in a place of its own; or close it, saying why.

    `begin` returns what takes its frames, or raises what else speaks against it; `reason` says an
    error.
    """
    try:
        calls = SocketCalls(services, socket)
        connection = SocketConnection(services.subscriptions, socket)
        session = begin(calls, connection)
        permit = services.stream_limits.acquire(calls.caller)
    except (TooManyStreams, TooManyStreamsOfOwner) as full:
        await close_at_once(socket, try_later(str(full)))
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
        await close_at_once(socket, refused(reason(error)))
        return
    try:
        socket.scope["extensions"][HOLD_BY](services.held_bodies.hold(calls.caller))
        headers = [(name.encode(), value.encode()) for name, value in calls.headers.items()]
        await socket.accept(chosen(socket), headers)
        await connection.serve(session)
    except WebSocketDisconnect:
        pass  # it went before it was accepted
    finally:
        permit.release()
