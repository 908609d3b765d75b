"""The MCP endpoint: each request on its own, so that any gateway answers any of them."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace.log import first_entry, last_entry
from headrace.model.errors import FileUnknown, LogLost, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import TaskFound
from headrace.model.task import INPUT_REQUIRED, TaskKey
from headrace_gateway.call import Call, call_of, callable_agents, caller_of
from headrace_gateway.protocols.mcp.call_stream import (
    CallRenderer,
    CallStream,
    asked_in,
    question_in,
    state_in,
)
from headrace_gateway.protocols.mcp.errors import error_response, missing_capability
from headrace_gateway.protocols.mcp.files import READ, FileResources
from headrace_gateway.protocols.mcp.messages import (
    HANDSHAKE,
    SESSION_HEADER,
    TASKS,
    VERSIONS,
    McpAnswer,
    McpNotification,
    McpRequest,
    McpSession,
    id_of,
    read_message,
)
from headrace_gateway.protocols.mcp.questions import AgentQuestion
from headrace_gateway.protocols.mcp.results import old_state_of, state_of
from headrace_gateway.protocols.mcp.tools import is_tool, submission, submission_of, tool_of
from headrace_gateway.refusals import GenerationMismatch, Malformed, TaskEnded, Violation
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import check_content_type, parse, read_body
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import protocol_of, requests_of
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HttpStream
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.ids import query_of, task_key
from headrace_gateway.tasks.submission import Submission
from headrace_gateway.tasks.subscribe import OpenedLog

_ID = "headrace.mcp.id"
"""Key in a request's scope: the JSON-RPC id, for the response to an error."""

_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_CALL = "SendStreamingMessage"
_LIST = "ListTools"

_CACHE_MS = 5000
"""For how long a client may keep lists."""

_INSTRUCTIONS = (
    "Each tool is an agent, which may take long and may ask questions. "
    "Pass the contextId of a result as context to continue its conversation."
)

type _Method = Callable[[Request, McpRequest], Awaitable[Json | ASGIApp]]
"""Answers a method's requests: with a result, or with a whole response."""


class _Handle(NamedTuple):
    """A task, as its handle names it."""

    call: Call
    key: TaskKey


class McpEndpoint:
    """Serves MCP's clients with the fleet's agents."""

    def __init__(self, services: Services) -> None:
        """Serve over `services`."""
        self._services, self._files = services, FileResources(services)
        self._server = {"name": "headrace", "version": version("headrace")}
        self._methods: Mapping[str, _Method] = {
            "initialize": self._initialize,
            "ping": self._empty,
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "tasks/get": self._get_task,
            "tasks/update": self._update_task,
            "tasks/cancel": self._cancel_task,
            "tasks/result": self._task_result,
            "resources/list": partial(self._list_nothing, "resources"),
            "resources/templates/list": partial(self._list_nothing, "resourceTemplates"),
            "resources/read": self._read_resource,
        }

    async def serve(self, request: Request) -> ASGIApp:
        """Answer a request, whatever becomes of it, in JSON-RPC."""
        try:
            one = requests_of(request.scope).one(protocol_of(request.scope), "jsonrpc")
            async with one:
                return one.with_headers(await self._answer(request))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            return error_response(request.scope.get(_ID), error, is_get=request.method == "GET")

    async def _answer(self, request: Request) -> ASGIApp:
        caller = caller_of(self._services, request)  # Before the body is read.
        if request.method != "POST":
            return await self._resume(request)
        check_content_type(request)
        parsed = parse(await read_body(request, self._services.body_limits))
        request.scope[_ID] = id_of(parsed)
        match read_message(request.headers, parsed):
            case McpRequest() as rpc:
                return await self._respond(request, rpc)
            case McpAnswer() as answer:
                await self._take_answer(request, answer)
            case McpNotification(method="notifications/cancelled") as notification:
                await self._cancel_call(request, caller, notification)
        return Response(status_code=HTTPStatus.ACCEPTED)

    async def _respond(self, request: Request, rpc: McpRequest) -> ASGIApp:
        found = await self._methods[rpc.method](request, rpc)
        if not isinstance(found, dict):
            return found
        if rpc.is_modern:
            found = {"resultType": "complete", **found, "_meta": {_SERVER_INFO: self._server}}
        content = {"jsonrpc": "2.0", "id": rpc.id, "result": found}
        headers: Mapping[str, str] = NO_STORE
        if rpc.method == "initialize":
            headers = {**NO_STORE, SESSION_HEADER: McpSession.begun(rpc.params).id}
        return json_response(content, headers=headers)

    async def _initialize(self, request: Request, rpc: McpRequest) -> Json:  # noqa: ARG002 - a method
        stated = rpc.params.get("protocolVersion")
        return {
            "protocolVersion": stated if stated in HANDSHAKE else HANDSHAKE[0],
            "capabilities": {
                "tools": {},
                "resources": {},
                "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}},
            },
            "serverInfo": self._server,
            "instructions": _INSTRUCTIONS,
        }

    async def _empty(self, request: Request, rpc: McpRequest) -> Json:  # noqa: ARG002 - a method
        return {}

    async def _discover(self, request: Request, rpc: McpRequest) -> Json:  # noqa: ARG002 - a method
        return {
            "supportedVersions": list(VERSIONS),
            "capabilities": {"tools": {}, "resources": {}, "extensions": {TASKS: {}}},
            "instructions": _INSTRUCTIONS,
            **_cached("public"),
        }

    async def _list_tools(self, request: Request, rpc: McpRequest) -> Json:
        services = self._services
        await services.access.check_anyone(caller_of(services, request), _LIST)
        found = [card for card in callable_agents(services, request, _CALL) if is_tool(card)]
        return {"tools": [tool_of(card, is_modern=rpc.is_modern) for card in found], **_cached()}

    async def _list_nothing(self, name: str, request: Request, rpc: McpRequest) -> Json:  # noqa: ARG002 - a method
        """Return an empty list: only a result names files, to whoever gets it."""
        return {name: [], **_cached()}

    async def _read_resource(self, request: Request, rpc: McpRequest) -> Json:
        uri = str(rpc.params["uri"])
        agent, task = self._files.agent_of(uri)
        call = await self._call_of(request, agent, READ, task)
        try:
            return {"contents": [await self._files.read(call.caller, uri)], **_cached()}
        except TaskUnknown:
            raise FileUnknown(f"{uri[:200]!r} is not a file of yours") from None

    async def _call_tool(self, request: Request, rpc: McpRequest) -> Json | ASGIApp:
        call = await self._call_of(request, str(rpc.params["name"]), _CALL)
        state = rpc.params.get("requestState") if rpc.is_modern else None
        if state is not None:
            return await self._go_on(call, rpc, str(state))
        submitted = submission_of(call, rpc.params.get("arguments"))
        if rpc.is_modern and rpc.has_tasks:
            return {"resultType": "task", **await self._begin(call, submitted, is_old=False)}
        if rpc.params.get("task") is not None and not rpc.is_modern:
            return {"task": await self._begin(call, submitted, is_old=True)}
        if rpc.session is not None:
            submitted = _keyed(submitted, rpc.session, rpc.id)

        async def opening() -> ASGIApp:
            async with await self._services.submissions.submit(submitted) as accepted:
                place = accepted.key.agent, accepted.key.task, accepted.log
                stream = CallStream.of(rpc, place)
                return self._stream(call.caller, stream, OpenedLog(accepted.held.hand_over(), 0, 1))

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def _begin(self, call: Call, submitted: Submission, *, is_old: bool) -> Json:
        """Return the state of a task that a call has begun."""
        async with await self._services.submissions.submit(submitted) as accepted:
            key = accepted.key
        return await self._state_of(_Handle(call, key), elicits=True, is_old=is_old)

    async def _go_on(self, call: Call, rpc: McpRequest, state: str) -> ASGIApp:
        """Return the rest of a call whose question the client has answered."""
        if (asked := state_in(state)) is None:
            raise TaskUnknown
        task, generation = asked
        given = rpc.params.get("inputResponses") or {}
        await self._submit_answers(call, task, generation, given)
        return await self._follow(call, rpc, task, generation)

    async def _follow(self, call: Call, rpc: McpRequest, task: str, after: int = 0) -> ASGIApp:
        """Return the stream of a task that has begun, as the answer to `rpc`."""
        key = task_key(self._services.settings, call.caller, call.agent, task)

        async def opening() -> ASGIApp:
            async with await self._opened(call.caller, key) as opened:
                stream = CallStream.of(rpc, (key.agent, key.task, opened.feed.log), after)
                return self._stream(call.caller, stream, opened)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def _opened(self, caller: Caller, key: TaskKey) -> OpenedLog:
        return await self._services.task_streams.open_log(caller, key, None)

    def _stream(self, caller: Caller, stream: CallStream, opened: OpenedLog) -> HttpStream:
        """Return the stream of an opened log; closing it cancels the task where MCP says so."""
        key = opened.feed.key
        shared, held = self._services.subscriptions, opened.held.hand_over()
        response = HttpStream(shared, held, opened.after, CallRenderer(stream))
        if stream.is_modern:
            response.left = partial(self._abandon, caller, key)
        return response

    def _abandon(self, caller: Caller, key: TaskKey) -> None:
        self._services.background.start(self._cancel(caller, key))

    async def _cancel(self, caller: Caller, key: TaskKey) -> None:
        with suppress(TaskEnded):
            await self._services.canceler.cancel(caller, key)

    async def _resume(self, request: Request) -> ASGIApp:
        """Return the rest of a stream, on whichever gateway it began."""
        event_id = request.headers.get("last-event-id", "")
        if request.method != "GET" or not event_id:
            return Response(status_code=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
        if (stream := CallStream.resumed(event_id)) is None or stream.is_modern:
            raise LogLost("the Last-Event-ID is not that of an event of this server")
        agent, task, log = stream.place
        call = await self._call_of(request, agent, "SubscribeToTask", task)
        key = task_key(self._services.settings, call.caller, call.agent, task)

        async def opening() -> ASGIApp:
            async with await self._opened(call.caller, key) as opened:
                if opened.feed.log != log:
                    raise LogLost("the log of the Last-Event-ID is gone")
                return self._stream(call.caller, stream, opened)

        return await self._services.stream_limits.with_permit(call.caller, opening)

    async def _take_answer(self, request: Request, answer: McpAnswer) -> None:
        """Submit a user's answer; the stream that asked, on any gateway, goes on with it."""
        if (asked := asked_in(answer.id)) is None:
            return
        agent, task, generation = asked
        call = await self._call_of(request, agent, _CALL, task)
        given = answer.result or {"action": "cancel"}
        await self._submit_answers(call, task, generation, {f"q{generation}": given})

    async def _cancel_call(
        self, request: Request, caller: Caller, notification: McpNotification
    ) -> None:
        """Cancel the task of a call, which the notification names by its request's id alone."""
        session, request_id = notification.session, notification.params.get("requestId")
        if session is None or not isinstance(request_id, str | int):
            return
        for card in self._services.directory.cards():
            if not caller.may(card.name, "CancelTask"):
                continue
            keyed = _key_of(caller, card.name, session, request_id)
            if (found := await self._services.submissions.replay(keyed)) is None:
                continue
            async with found:
                call = await self._call_of(request, card.name, "CancelTask", found.key.task)
            await self._cancel(call.caller, found.key)

    async def _get_task(self, request: Request, rpc: McpRequest) -> Json:
        handle = await self._handle(request, rpc, "GetTask")
        return await self._state_of(handle, elicits=rpc.elicits, is_old=not rpc.is_modern)

    async def _cancel_task(self, request: Request, rpc: McpRequest) -> Json:
        handle = await self._handle(request, rpc, "CancelTask")
        if rpc.is_modern:
            await self._cancel(handle.call.caller, handle.key)
            return {}
        try:
            await self._services.canceler.cancel(handle.call.caller, handle.key)
        except TaskEnded:  # The earlier revision demands this error.
            raise Malformed([Violation("params.taskId", "names a task that has ended")]) from None
        return await self._state_of(handle, elicits=True, is_old=True)

    async def _update_task(self, request: Request, rpc: McpRequest) -> Json:
        handle = await self._handle(request, rpc, _CALL)
        found = await self._found(handle)
        given = rpc.params["inputResponses"]
        await self._submit_answers(handle.call, handle.key.task, found.generation, given)
        return {}

    async def _task_result(self, request: Request, rpc: McpRequest) -> ASGIApp:
        handle = await self._handle(request, rpc, "SubscribeToTask")
        return await self._follow(handle.call, rpc, handle.key.task)

    async def _submit_answers(self, call: Call, task: str, generation: int, given: Json) -> None:
        """Submit the answer to the question of that generation, unless it is no longer open."""
        key = task_key(self._services.settings, call.caller, call.agent, task)
        await self._services.state.get(query_of(call.caller, key, history_length=0))
        question = await self._question(key, generation)
        if question is None or not isinstance(answer := given.get(question.key), dict):
            return
        parts = question.answer(answer)
        submitted = submission(call, parts, task=task, if_generation=generation)
        with suppress(GenerationMismatch, TaskEnded):
            async with await self._services.submissions.submit(submitted):
                pass

    async def _state_of(self, handle: _Handle, *, elicits: bool, is_old: bool) -> Json:
        found, (_, key) = await self._found(handle), handle
        first = await first_entry(self._services.bus, key)
        created = found.task["status"].get("timestamp", "") if first is None else first.time
        question = None
        if found.state == INPUT_REQUIRED:
            question = await self._question(key, found.generation)
        if is_old:
            return old_state_of((key.agent, found.task), created, question)
        return state_of((key.agent, found.task), created, question, elicits=elicits)

    async def _found(self, handle: _Handle) -> TaskFound:
        query = query_of(handle.call.caller, handle.key, "GetTask", history_length=0)
        return await self._services.state.get(query)

    async def _question(self, key: TaskKey, generation: int) -> AgentQuestion | None:
        """Return the question of that generation; None: it is no longer open."""
        last = await last_entry(self._services.bus, key)
        question = None if last is None else question_in(last)
        return question if question is not None and question.generation == generation else None

    async def _handle(self, request: Request, rpc: McpRequest, operation: str) -> _Handle:
        """Return the task that a request for a task names, after access control.

        Raises:
            TaskUnknown: the caller has no such task.
            RpcError: the client has not declared that it knows tasks.
        """
        if rpc.is_modern and not rpc.has_tasks:
            raise missing_capability({"extensions": {TASKS: {}}})
        agent, _, task = str(rpc.params["taskId"]).rpartition(".")
        if self._services.directory.card(agent) is None:
            raise TaskUnknown
        call = await self._call_of(request, agent, operation, task)
        return _Handle(call, task_key(self._services.settings, call.caller, call.agent, task))

    async def _call_of(self, request: Request, agent: str, operation: str, task: str = "") -> Call:
        request.scope["path_params"] = {"agent": agent}
        return await call_of(self._services, request, operation, task=task)


def _cached(scope: str = "private") -> Json:
    return {"ttlMs": _CACHE_MS, "cacheScope": scope}


def _keyed(submitted: Submission, session: McpSession, request_id: str | int) -> Submission:
    """Return the submission under a key, by which a cancel or a repeated request finds it."""
    keyed = _key_of(submitted.caller, submitted.agent, session, request_id)
    return replace(submitted, keyed=keyed)


def _key_of(caller: Caller, agent: str, session: McpSession, request_id: str | int) -> KeyedRequest:
    return KeyedRequest(caller, agent, f"mcp {session.id} {request_id!r}", "mcp")
