"""A2A sessions over a WebSocket: any number of concurrent streams and calls."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from headrace.model.cursor import Cursor
from headrace.model.events import Json
from headrace_gateway.call import Call, SocketCalls
from headrace_gateway.feeds import EntryRenderer, FeedBlock
from headrace_gateway.problems import Problem, problem_of, problem_of_interruption
from headrace_gateway.protocols.a2a.follow import FOLLOW, context_feed, context_renderer
from headrace_gateway.protocols.a2a.hector_forms import open_folding
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.parameters import task_in
from headrace_gateway.protocols.a2a.stream_responses import entry_renderer_for, run_begins
from headrace_gateway.protocols.a2a.versions import (
    SERVED,
    check_version,
    forms_of,
    shape_of_call,
)
from headrace_gateway.protocols.a2a.websocket.frames import (
    OperationRequest,
    SocketEnvelope,
    Unsubscribe,
    envelope_of,
    is_hectors,
    read_frame,
)
from headrace_gateway.protocols.hector import forms
from headrace_gateway.protocols.hector.renderer import messages
from headrace_gateway.protocols.hector.tool_calls import WholeCalls
from headrace_gateway.refusals import TooManyAtOnce
from headrace_gateway.server.body import parse_object
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import (
    Cause,
    Interruption,
    Messages,
    Renderer,
    SharedRenderer,
)
from headrace_gateway.streaming.websocket import SocketConnection
from headrace_gateway.tasks.subscribe import NothingFollows, OpenedStream
from headrace_gateway.websocket_handshake import open_socket

_BY_CLOSING = {Cause.STOPPING, Cause.STALLED}
"""Causes that the connection's close frame reports for all its streams."""


class SocketRenderer(SharedRenderer):
    """Renders each event as one message."""

    __slots__ = ("_envelope", "_task")

    def __init__(
        self,
        envelope: SocketEnvelope,
        entry_renderer: EntryRenderer,
        task: str,
        opening: bytes = b"",
    ) -> None:
        """Render events with `entry_renderer`, in `envelope`, after `opening`."""
        super().__init__(entry_renderer, envelope.head, opening=opening, ending=envelope.end())
        self._envelope, self._task = envelope, task

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return one message for each event."""
        head, shared = self._splice, self._entry_renderer
        return [head + piece for block in blocks for piece in block.pieces(shared, after)]

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error, unless the connection closes."""
        return interrupted(self._envelope, why, self._task)


def interrupted(envelope: SocketEnvelope, why: Interruption, task: str) -> Messages:
    """Return an error, unless the connection closes and reports the reason."""
    if why.cause in _BY_CLOSING:
        return ()
    problem: Problem = problem_of_interruption(why, task)
    return (envelope.error(problem),)


def folded_message(envelope: SocketEnvelope, *, recovered: bool) -> Callable[[str, Json], bytes]:
    """Return a function that wraps a cursor and an event; the first message reports a loss."""
    is_lost = not recovered

    def message(cursor: str, event: Json) -> bytes:
        nonlocal is_lost
        lost, is_lost = is_lost, False
        return envelope.message(cursor, event, lost=lost)

    return message


class A2ASession:
    """Handles the frames of one client. Each frame's work is a separate job."""

    def __init__(
        self,
        services: Services,
        calls: SocketCalls,
        socket: WebSocket,
        connection: SocketConnection,
    ) -> None:
        """Answer `calls` over `connection`; the handshake `socket` selects the format."""
        self._services, self._socket, self._connection = services, socket, connection
        requested = forms_of(socket)
        self._folds, self._is_shaped = requested.events, requested.shapes
        self._calls = calls
        self._jobs: dict[bytes, asyncio.Task[None]] = {}

    async def handle(self, text: str) -> None:
        """Start the operation in a frame, or send an error."""
        envelope = SocketEnvelope(b"null")
        try:
            body = text.encode()
            self._calls.check_rate(len(body))
            self._services.body_limits.check(body)
            frame = parse_object(body)
            envelope = replace(envelope_of(frame), is_hectors=self._shapes(frame))
            request = read_frame(frame)
            if isinstance(request, Unsubscribe):
                await self._unsubscribe(request)
            else:
                self._begin(envelope, request, len(body))
        except Exception as error:  # noqa: BLE001 - all errors are sent in the protocol's format
            refusal = self._calls.counted(error)
            self._connection.refused(refusal)
            await self._connection.write([envelope.error(problem_of(refusal))])

    def _shapes(self, frame: Json) -> bool:
        """Return whether the connection or the frame's form requests Hector's shapes."""
        return self._is_shaped or (is_hectors(frame) and not self._folds)

    def _begin(self, envelope: SocketEnvelope, request: OperationRequest, size: int) -> None:
        if envelope.id in self._jobs:
            raise InvalidRequestError("this id is in use on the connection")
        most = self._services.settings.socket_streams
        if self._connection.jobs >= most:
            raise TooManyAtOnce(
                f"the connection already has {most} subscriptions and calls, the maximum"
            )
        request.held = self._services.body_limits.held.hold(self._calls.caller, size)
        job = self._connection.start(self._serve(envelope, request))
        self._jobs[envelope.id] = job
        job.add_done_callback(lambda _: self._over(envelope, request))

    def _over(self, envelope: SocketEnvelope, request: OperationRequest) -> None:
        del self._jobs[envelope.id]
        request.release()

    async def _unsubscribe(self, request: Unsubscribe) -> None:
        job = self._jobs.get(request.id)
        if job is None:
            raise InvalidRequestError("this connection has no subscription or call with that id")
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)
        await self._connection.write([SocketEnvelope(request.id).end()])

    async def _serve(self, envelope: SocketEnvelope, request: OperationRequest) -> None:
        try:
            await self._answer(envelope, request)
        except NothingFollows:
            await self._connection.write([envelope.end()])
        except Exception as error:  # noqa: BLE001 - all errors are sent in the protocol's format
            await self._connection.write([envelope.error(problem_of(error))])

    async def _answer(self, envelope: SocketEnvelope, request: OperationRequest) -> None:
        operation = request.operation
        if operation == FOLLOW:
            await self._follow(envelope, request)
            return
        if operation in STREAMING:
            await self._stream(envelope, request)
            return
        async with self._connection.open_request():
            call = await self._call(request)
            result = await UNARY[call.operation](self._services, call, request.params)
        await self._connection.write([envelope.result(operation, result)])

    async def _call(self, request: OperationRequest) -> Call:
        operation = request.operation
        caller = self._calls.authenticate()  # First, so that what is refused below counts.
        check_version(self._socket, looks_like=shape_of_call(operation))
        if operation not in UNARY and operation not in STREAMING and operation != FOLLOW:
            raise MethodNotFoundError(f"unknown method {operation!r}")
        return await self._calls.call(
            operation,
            caller=caller,
            task=task_in(operation, request.params),
            cursor=request.after.strip(),
            key=request.idempotency_key,
            traceparent=request.traceparent,
        )

    async def _permitted(self, request: OperationRequest, holding: AsyncExitStack) -> Call:
        """Return the call of a stream, with a permit for it in `holding`."""
        call = await self._call(request)
        holding.callback(self._services.stream_limits.acquire(call.caller).release)
        if (self._folds or self._is_shaped) and request.operation in forms.SENDS:
            request.params = forms.completed(request.params)
        return call

    async def _stream(self, envelope: SocketEnvelope, request: OperationRequest) -> None:
        async with AsyncExitStack() as holding:
            if self._folds:
                await self._stream_folded(holding, envelope, request)
                return
            async with self._connection.open_request():
                call = await self._permitted(request, holding)
                opening = STREAMING[call.operation](self._services, call, request.params)
                streaming = await holding.enter_async_context(await opening)
            request.release()
            await self._stream_events(call, envelope, streaming)

    async def _follow(self, envelope: SocketEnvelope, request: OperationRequest) -> None:
        async with AsyncExitStack() as holding:
            async with self._connection.open_request():
                call = await self._permitted(request, holding)
                opened = await context_feed(self._services, call, request.params)
                feed = await holding.enter_async_context(opened.held())
            request.release()
            renderer = context_renderer(
                self._services,
                call,
                lambda event: envelope.line(event.cursor, event.line),
                lambda why: interrupted(envelope, why, ""),
                self._socket,
            )
            await self._connection.stream(feed, 0, renderer)

    async def _stream_events(
        self, call: Call, envelope: SocketEnvelope, streaming: OpenedStream
    ) -> None:
        feed, first = streaming.feed, streaming.first
        opening = b""
        if first is not None:
            cursor = Cursor(streaming.log, first.generation)
            opening = envelope.event(cursor, first.event, recovered=streaming.recovered)
        entry_renderer = entry_renderer_for(envelope.entry_renderer, call, streaming)
        renderer: Renderer = SocketRenderer(envelope, entry_renderer, feed.key.task, opening)
        start = streaming.after
        if envelope.is_hectors:
            renderer = WholeCalls(renderer, start)
            start = run_begins(call, streaming)
        await self._connection.stream(feed, start, renderer)

    async def _stream_folded(
        self, holding: AsyncExitStack, envelope: SocketEnvelope, request: OperationRequest
    ) -> None:
        async with self._connection.open_request():
            call = await self._permitted(request, holding)
            opening = open_folding(self._services, call, request.operation, request.params)
            folding = await holding.enter_async_context(await opening)
        request.release()
        streaming, start = folding.streaming, folding.start
        renderer = messages(
            streaming.log,
            start,
            folding.cursor,
            message=folded_message(envelope, recovered=streaming.recovered),
            ending=(envelope.end(),),
            interrupted=lambda why: interrupted(envelope, why, streaming.key.task),
        )
        await self._connection.stream(streaming.feed, start, renderer)


class SocketEndpoint:
    """Opens WebSockets."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    def routes(self, prefix: str) -> list[WebSocketRoute]:
        """Return the route of an agent whose base is `prefix`."""
        return [WebSocketRoute(f"{prefix}/stream", self._open)]

    async def _open(self, socket: WebSocket) -> None:
        def session(calls: SocketCalls, connection: SocketConnection) -> A2ASession:
            check_version(socket, looks_like=SERVED[0])
            return A2ASession(self._services, calls, socket, connection)

        await open_socket(self._services, socket, session, lambda error: problem_of(error).message)
