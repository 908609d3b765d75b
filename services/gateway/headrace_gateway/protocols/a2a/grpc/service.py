"""A2A's methods over gRPC: parse the request, run the operation, send the result or the stream."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import grpc.aio
from a2a.utils.constants import PROTOCOL_VERSION_0_3

from headrace.model import json_text
from headrace.model.cursor import RECOVERED_HEADER
from headrace.model.events import Json
from headrace_gateway.call import Call, admit, admitted_call, call_of, caller_of
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.problems import Problem, problem_of, problem_of_interruption
from headrace_gateway.protocols.a2a.grpc.errors import gone, refuse
from headrace_gateway.protocols.a2a.grpc.forms import Form
from headrace_gateway.protocols.a2a.grpc.request_message import RequestMessage
from headrace_gateway.protocols.a2a.grpc.rpc_request import RpcRequest, outgoing
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.parameters import task_in
from headrace_gateway.protocols.a2a.stream_responses import entry_renderer_for
from headrace_gateway.protocols.a2a.versions import check_version
from headrace_gateway.server.body import hold
from headrace_gateway.server.open_requests import check_rate
from headrace_gateway.services import Services
from headrace_gateway.streaming.grpc import Context, RpcStream
from headrace_gateway.streaming.renderer import Messages, SharedRenderer
from headrace_gateway.tasks.subscribe import NothingFollows, OpenedStream


class CutOff(Exception):
    """The stream ends before its task does; the client may resume with its cursor."""

    def __init__(self, problem: Problem) -> None:
        """Keep the problem that the client receives."""
        super().__init__(problem.message)
        self.problem = problem


class RpcRenderer(SharedRenderer):
    """Renders each event as one message. The RPC's status reports an early end."""

    __slots__ = ()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return one message for each event."""
        return [piece for block in blocks for piece in block.pieces(self._entry_renderer, after)]


async def serve_stream(
    services: Services, form: Form, call: Call, streaming: OpenedStream, context: Context
) -> None:
    """Stream to `context` until nothing more follows.

    Raises:
        CutOff: the gateway stops, the log cannot be read, the client does not read, or protobuf
            cannot represent an event.
    """
    feed, first = streaming.feed, streaming.first
    opening = b"" if first is None else form.event(first.event, streaming.log, first.generation)
    lost = {} if streaming.recovered else {RECOVERED_HEADER: "false"}
    stream = RpcStream(context, outgoing(call.headers | lost))
    renderer = RpcRenderer(
        entry_renderer_for(form.entry_renderer, call, streaming), opening=opening
    )
    why = await stream.serve(services.subscriptions, feed, streaming.after, renderer)
    if why is not None:
        raise CutOff(problem_of_interruption(why, feed.key.task))


type ServedMethod = Callable[[object, Context], Awaitable[bytes | None]]
"""Answers one call. That of a streaming method writes its responses itself, and returns None."""

_LARGE = 256 * 1024
"""Bytes above which a request is parsed in a thread."""

_IN_METADATA = {
    "GetTask": ("current-generation", "currentGeneration"),
    "SendMessage": ("if-generation-match", "ifGenerationMatch"),
    "SendStreamingMessage": ("if-generation-match", "ifGenerationMatch"),
}
"""By operation: a metadata key, and the parameter that protobuf has no field for yet."""


class Service:
    """One version's service over the operations."""

    def __init__(self, services: Services, form: Form) -> None:
        """Serve the operations over `services`, in the messages of `form`."""
        self._services, self._form = services, form
        self._is_old = form.version == PROTOCOL_VERSION_0_3

    def methods(self) -> Iterator[tuple[str, ServedMethod]]:
        """Yield each method's full path and what answers its calls."""
        for method, operation in self._form.operations.items():
            made = self._stream(method) if operation in STREAMING else self._unary(method)
            yield f"/{self._form.service}/{method}", made

    def _unary(self, method: str) -> ServedMethod:
        async def serve(_requests: object, context: Context) -> bytes:
            asking = RpcRequest(context, self._services.settings)
            try:
                async with self._services.requests.one("a2a", "grpc"):
                    call, params = await self._read(asking, method, context)
                    work = UNARY[call.operation](self._services, call, params)
                    result = await self._carried_out(asking, work)
                response = self._form.response(method, result)
                await context.send_initial_metadata(outgoing(call.headers))
            except grpc.aio.BaseError:
                raise gone() from None
            except Exception as error:  # noqa: BLE001 - all errors are sent in the protocol's format
                await refuse(context, problem_of(error), named=self._is_old)
            return response

        return serve

    def _stream(self, method: str) -> ServedMethod:
        async def serve(_requests: object, context: Context) -> None:
            asking = RpcRequest(context, self._services.settings)
            try:
                async with AsyncExitStack() as holding:
                    async with self._services.requests.one("a2a", "grpc"):
                        call, streaming = await self._opened(asking, method, context, holding)
                    if streaming is None:
                        await context.send_initial_metadata(outgoing(call.headers))
                    else:
                        await serve_stream(self._services, self._form, call, streaming, context)
            except CutOff as cut:
                await refuse(context, cut.problem, named=self._is_old)
            except grpc.aio.BaseError:
                raise gone() from None
            except Exception as error:  # noqa: BLE001 - as _unary
                await refuse(context, problem_of(error), named=self._is_old)

        return serve

    async def _opened(
        self, asking: RpcRequest, method: str, context: Context, holding: AsyncExitStack
    ) -> tuple[Call, OpenedStream | None]:
        """Return the call, and its stream in `holding` with its permit; None: nothing follows."""
        call, params = await self._read(asking, method, context)
        holding.callback(self._services.stream_limits.acquire(call.caller).release)
        opening = STREAMING[call.operation](self._services, call, params)
        try:
            streaming = await self._carried_out(asking, opening)
        except NothingFollows:
            return call, None
        return call, await holding.enter_async_context(streaming)

    async def _read(self, asking: RpcRequest, method: str, context: Context) -> tuple[Call, Json]:
        """Return the call and the operation's parameters.

        Raises:
            A2AError, HeadraceError, Malformed: the request is refused before the operation runs.
        """
        asking.check()
        services, request, operation = self._services, asking.request, self._form.operations[method]
        # Before the message is read, whose size gRPC does not report. No operation is public.
        caller = caller_of(services, request)
        admission = admit(services, request, operation) if asking.names_agent else None
        check_rate()
        bodies, largest = services.body_limits.held, services.settings.max_body_bytes
        message = RequestMessage(
            hold(bodies.hold(caller)), bodies.turns(caller), largest, services.timing
        )
        await self._form.load()
        params = await self._params(method, await message.received(context))
        version, task = self._form.version, task_in(operation, params)
        if admission is not None:
            call = await admitted_call(services, request, admission, task=task, version=version)
        else:
            tenant = params.get("tenant")
            call = await call_of(
                services, request, operation, task=task, tenant=tenant, version=version
            )
        check_version(request, looks_like=version, served=(version,))
        _add_from_metadata(asking, operation, params)
        return call, params

    async def _params(self, method: str, request: bytes) -> Json:
        """Return the operation's parameters.

        Raises:
            A2AError: the bytes are not a valid request.
            BodyTooLarge: the request without its files is too large.
        """
        if len(request) <= _LARGE:
            return self._form.read(method, request)
        # Parsing many small values can take seconds, which must not block other streams.
        params = await asyncio.to_thread(self._form.read, method, request)
        self._services.body_limits.check(json_text.encode(params))
        return params

    async def _carried_out[Result](
        self, asking: RpcRequest, work: Coroutine[Any, Any, Result]
    ) -> Result:
        """Return the result of `work`, which continues if the client disconnects.

        Cancelling it midway could leave an input half accepted.
        """
        try:
            return await self._services.background.run(work)
        except asyncio.CancelledError:
            asking.hang_up()
            raise


def _add_from_metadata(asking: RpcRequest, operation: str, params: Json) -> None:
    key, name = _IN_METADATA.get(operation, ("", ""))
    given = dict(asking.metadata).get(key)
    if given is not None:
        holder = params if operation == "GetTask" else params.setdefault("configuration", {})
        holder[name] = given
