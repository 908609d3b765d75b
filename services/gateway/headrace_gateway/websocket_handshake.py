"""Opening a WebSocket: authentication, the agent, and limits."""

from collections.abc import Callable

from starlette.websockets import WebSocket, WebSocketDisconnect

from headrace_gateway.call import SocketCalls
from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.server.http_protocol import HOLD_BY
from headrace_gateway.server.open_requests import protocol_of
from headrace_gateway.server.websocket_close import chosen, close_at_once, refused, try_later
from headrace_gateway.services import Services
from headrace_gateway.streaming.websocket import Session, SocketConnection


async def open_socket(
    services: Services,
    socket: WebSocket,
    begin: Callable[[SocketCalls, SocketConnection], Session],
    reason: Callable[[Exception], str],
) -> None:
    """Accept `socket` and serve it with a stream permit, or close it with a reason.

    `begin` returns the session that handles the frames, or raises a refusal. `reason` returns the
    text for an error.
    """
    try:
        calls = SocketCalls(services, socket)
        connection = SocketConnection(services.subscriptions, socket)
        session = begin(calls, connection)
        permit = services.stream_limits.acquire(calls.caller)
    except Exception as error:  # noqa: BLE001 - every error is sent to the client
        services.subscriptions.requests.refused(protocol_of(socket.scope), "websocket", error)
        is_full = isinstance(error, TooManyStreams | TooManyStreamsOfOwner)
        await close_at_once(socket, try_later(str(error)) if is_full else refused(reason(error)))
        return
    try:
        # Only this gateway's own server has it; other servers bound messages themselves.
        if hold_by := socket.scope["extensions"].get(HOLD_BY):
            hold_by(services.body_limits.held.hold(calls.caller))
        headers = [(name.encode(), value.encode()) for name, value in calls.headers.items()]
        await socket.accept(chosen(socket), headers)
        await connection.serve(session)
    except WebSocketDisconnect:
        pass  # The client disconnected before it was accepted.
    finally:
        permit.release()
