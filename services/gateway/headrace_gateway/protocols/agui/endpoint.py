"""What the AG-UI routes serve: starts of runs, and reconnections to them."""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from headrace.directory import AgentCard
from headrace.model.cursor import FrameCursor
from headrace.model.events import Json
from headrace_gateway.call import Call, SocketCalls, admit, admitted_call, call_of
from headrace_gateway.json_errors import check_body_type, check_id, error_answer
from headrace_gateway.protocols.agui.capabilities import capabilities
from headrace_gateway.protocols.agui.encodings import encoding_for
from headrace_gateway.protocols.agui.errors import RunUnknown
from headrace_gateway.protocols.agui.extras import in_query, is_set
from headrace_gateway.protocols.agui.history import past_of
from headrace_gateway.protocols.agui.later_runs import open_runs, runs_stream
from headrace_gateway.protocols.agui.named_run import NamedRun, named_run
from headrace_gateway.protocols.agui.open_run import is_at_end, open_again, open_run
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.run_socket import RunSession
from headrace_gateway.protocols.agui.run_stream import run_stream
from headrace_gateway.protocols.agui.threads import RunThread
from headrace_gateway.refusals import AgentUnknown, TaskEnded
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.services import Services
from headrace_gateway.streaming.websocket import SocketConnection
from headrace_gateway.websocket_handshake import open_socket


class StopResult(NamedTuple):
    """A run after a stop request."""

    run: str
    was_going_on: bool
    """False if the run had already ended."""


async def stop(services: Services, call: Call, named: NamedRun) -> StopResult:
    """Cancel the task of the given run, or of the thread's newest run.

    Raises:
        RunUnknown: the caller has no such run.
        HeadraceError: as `RunThread` and `Cancelling.cancel`.
    """
    thread = RunThread(services, call, named.thread)
    found = await (thread.find(named.run) if named.run else thread.newest())
    try:
        await services.canceler.cancel(call.caller, found.key)
    except TaskEnded:
        return StopResult(found.run.id, was_going_on=False)
    return StopResult(found.run.id, was_going_on=True)


class RunEndpoint:
    """Starts runs and attaches clients to existing ones."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services = services

    async def run(self, request: Request) -> ASGIApp:
        """Start the run in the request and return its stream.

        With a cursor, resume the stream of a run that the client has read before.
        """
        admission = admit(self._services, request, "SendStreamingMessage")
        encoding = encoding_for(request)
        check_body_type(request)
        extras = in_query(request.query_params)
        body = await read_body(request, self._services.body_limits)
        run_input = RunInput.read(body, extras)
        call = await admitted_call(self._services, request, admission, thread=run_input.thread)

        async def opening() -> ASGIApp:
            async with await open_run(self._services, call, run_input) as opened:
                return run_stream(self._services.subscriptions, opened, encoding)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def attach(self, request: Request) -> ASGIApp:
        """Return the stream of an existing run: after a cursor, or from its current state."""
        call, named = await self._call_of_run(request, "SubscribeToTask")
        return await self._attached(request, call, named)

    async def _call_of_run(self, request: Request, operation: str) -> tuple[Call, NamedRun]:
        """Return the call of an operation on a run, and the run."""
        admission = admit(self._services, request, operation)  # Before the body is read.
        named = await named_run(request, self._services.body_limits)
        call = await admitted_call(self._services, request, admission, thread=named.thread)
        return call, named

    async def _attached(self, request: Request, call: Call, named: NamedRun) -> ASGIApp:
        encoding = encoding_for(request)

        async def opening() -> ASGIApp:
            cursor = FrameCursor.parse(call.cursor) if request.method == "GET" else None
            async with await open_again(self._services, call, named) as opened:
                # An EventSource reconnects after every stream that ends, until it receives 204.
                if await is_at_end(opened, cursor):
                    return Response(status_code=204)
                return run_stream(self._services.subscriptions, opened, encoding)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def connect(self, request: Request) -> ASGIApp:
        """Return the stream of the newest run in the body's thread, whichever run the body names.

        The official client gives each request a new run id, even when it reconnects.
        """
        call, named = await self._call_of_run(request, "SubscribeToTask")
        if is_set(request.query_params, "stay"):
            return await self._stayed(request, call, named.thread)
        return await self._attached(request, call, NamedRun(named.thread, None))

    async def _stayed(self, request: Request, call: Call, thread: str) -> ASGIApp:
        """Return the stream of a thread's newest run, or the cursor's, and of all later runs."""
        encoding, services = encoding_for(request), self._services

        async def opening() -> ASGIApp:
            runs = await open_runs(services, call, thread)
            return runs_stream(services, runs, encoding)

        return await services.stream_limits.with_permit(call.caller, opening)

    async def resumed(self, request: Request) -> ASGIApp | None:
        """Return the stream of the newest run in the body's thread, or None if it has no runs.

        Raises:
            CodedError, HeadraceError: as `connect`.
        """
        try:
            return await self.connect(request)
        except RunUnknown:
            return None

    async def stopped(self, request: Request, thread: str, run: str | None) -> bool:
        """Stop the given run, or the thread's newest; return False if it was not running.

        Raises:
            CodedError, HeadraceError: as `stop`.
        """
        check_id("threadId", thread)
        call = await call_of(self._services, request, "CancelTask", thread=thread)
        try:
            return (await stop(self._services, call, NamedRun(thread, run))).was_going_on
        except RunUnknown:
            return False

    def capabilities_of(self, card: AgentCard) -> Json:
        """Return an agent's capabilities in AG-UI's format."""
        return capabilities(card)

    async def stop(self, request: Request) -> ASGIApp:
        """Stop the run in the request, or the thread's newest, for all its clients."""
        call, named = await self._call_of_run(request, "CancelTask")
        stopped = await stop(self._services, call, named)
        content = {"threadId": named.thread, "runId": stopped.run, "stopped": stopped.was_going_on}
        return json_response(content, headers=NO_STORE)

    async def capabilities(self, request: Request) -> ASGIApp:
        """Return the agent's capabilities."""
        self._services.callers.reader_of(request.headers)
        name = request.path_params.get("agent", self._services.default_agent)
        card = self._services.directory.card(name)
        if card is None:
            raise AgentUnknown(f"agent {name!r} does not exist")
        return json_response(self.capabilities_of(card), headers=NO_STORE)

    async def thread(self, request: Request) -> ASGIApp:
        """Return a thread's messages, state and runs."""
        call = await call_of(self._services, request, "ListTasks")
        name = request.path_params["thread"]
        check_id("threadId", name)
        past = await past_of(RunThread(self._services, call, name))
        if not past.runs:
            raise RunUnknown(f"thread {name} does not exist")
        content: Json = {"threadId": name, "messages": [*past.messages], "state": past.state}
        return json_response({**content, "runs": past.run_list()}, headers=NO_STORE)

    async def socket(self, socket: WebSocket) -> None:
        """Serve a WebSocket for any number of runs."""

        def session(calls: SocketCalls, connection: SocketConnection) -> RunSession:
            cursors = is_set(socket.query_params, "cursors")
            return RunSession(self._services, calls, socket, connection, cursors=cursors)

        await open_socket(
            self._services, socket, session, lambda error: error_answer(error).message
        )
