"""A2A's REST binding (HTTP+JSON): the routes of one agent, and the default agent's at the root."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import MethodNotFoundError
from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.model import json_text
from headrace.model.events import Json
from headrace_gateway.call import IDEMPOTENCY_KEY, Call, admit, admitted_call, call_of, cursor_of
from headrace_gateway.protocols.a2a.errors import RestErrors
from headrace_gateway.protocols.a2a.follow import CONTEXT, FOLLOW, rest_follow
from headrace_gateway.protocols.a2a.hector_forms import HTTP_FORM, folded_stream, reads_short
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.parameters import plain_message, task_in
from headrace_gateway.protocols.a2a.protojson import from_query
from headrace_gateway.protocols.a2a.stream_responses import StreamOptions, empty_stream, rest_stream
from headrace_gateway.protocols.a2a.versions import (
    BOTH,
    HTTP,
    OLD,
    HectorForms,
    VersionBinding,
    Versions,
    check_version,
    forms_of,
    media_type,
    shape_of_message,
)
from headrace_gateway.protocols.hector.forms import SENDS, completed
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.any_text import any_text
from headrace_gateway.server.body import check_content_type, parse_object, read_body
from headrace_gateway.server.endpoints import EndpointApp
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.server.origin import Origins, PageRefused
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HEADERS
from headrace_gateway.tasks.subscribe import NothingFollows

IDS = ("contextId", "messageId", "taskId")
"""Message ids as query parameters, for clients that send only the message's text."""


def request_of_query(call: Call, query: QueryParams) -> tuple[Call, Json]:
    """Return the call and the parameters of a message in a URL.

    ``EventSource`` can only send GET requests, and repeats them whenever it reconnects. The cursors
    of such a stream therefore include the task: ``<task>/<cursor>``. A request with such a cursor
    resumes that task and ignores the message in its URL, so that nothing runs twice.

    Raises:
        Malformed: the query has no message, or the cursor is not one of such a stream.
        JSONParseError: the message starts as an object, but is not JSON.
    """
    if call.cursor:
        task, _, cursor = call.cursor.rpartition("/")
        if not task or not cursor:
            rule = "must be the id of an event of this stream (a task and a cursor)"
            raise Malformed([Violation("Last-Event-ID", rule)])
        return replace(call, cursor=cursor), {"id": task}
    key = call.idempotency_key or query.get(IDEMPOTENCY_KEY)
    params = completed({"message": _message(query)})
    return replace(call, idempotency_key=key), params


def _completed(request: Request, requested: HectorForms, params: Json) -> Json:
    """Return a message's parameters, with the omissions of a short form filled in."""
    return completed(params) if reads_short(requested, request, params) else params


def _message(query: QueryParams) -> Json:
    """Return the message in the query: JSON as in a body, or its text."""
    text = query.get("message", "")
    if not text:
        raise Malformed([Violation("message", "is required in the query, as text or JSON")])
    if text.lstrip().startswith("{"):
        return parse_object(text.encode())
    return {"parts": [{"text": text}], **{name: query[name] for name in IDS if query.get(name)}}


_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

ROUTES = (
    ("POST", "/message:stream", "SendStreamingMessage"),
    ("POST", "/message:send", "SendMessage"),
    ("GET", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("POST", "/tasks/{id}:subscribe", "SubscribeToTask"),
    ("POST", "/tasks/{id}:cancel", "CancelTask"),
    ("GET", "/tasks/{id}", "GetTask"),
    ("GET", "/tasks", "ListTasks"),
    ("POST", _CONFIGS, "CreateTaskPushNotificationConfig"),
    ("GET", _CONFIGS, "ListTaskPushNotificationConfigs"),
    ("GET", f"{_CONFIGS}/{{id}}", "GetTaskPushNotificationConfig"),
    ("DELETE", f"{_CONFIGS}/{{id}}", "DeleteTaskPushNotificationConfig"),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard"),
    ("DELETE", "/tasks/{id}", "DeleteTask"),
    ("POST", "/tasks/{id}:fork", "ForkTask"),
)
"""Method, path and operation, the most used first."""

FOLLOW_PATH = f"/contexts/{any_text(CONTEXT)}:subscribe"
"""Path of the extension that follows a context."""

FROM_QUERY = "/message:stream"
"""Path on which GET requests may also send a message."""

_ROUTES_03 = (
    *((method, f"/v1{path}", operation) for method, path, operation in ROUTES[:6]),
    *((method, f"/v1{path}", operation) for method, path, operation in ROUTES[7:11]),
    ("GET", "/v1/card", "GetExtendedAgentCard"),
)
"""The routes of 0.3, which has no list of tasks."""

_ROUTING = ("agent", "tenant")
"""Path parameters for routing, which are not operation parameters."""

REQUESTS: Mapping[str, type[Message]] = {
    method.name: getattr(a2a_pb2, method.input_type.name)
    for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
} | {"DeleteTask": a2a_pb2.CancelTaskRequest}


class RestBinding:
    """The binding's routes over the operations."""

    def __init__(self, services: Services, versions: Versions, errors: RestErrors) -> None:
        """Serve the operations over `services`, in those `versions`, or in Hector's shapes."""
        self._services, self._origins = services, Origins(services.settings)
        self._versions, self._errors = versions, errors

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes under `prefix`, the path of an agent or empty."""
        map_errors = self._errors.map_errors
        return [
            *(
                Route(
                    prefix + path,
                    EndpointApp(map_errors(self.endpoint(operation))),
                    methods=[method],
                )
                for method, path, operation in ROUTES
            ),
            Route(prefix + FROM_QUERY, map_errors(self._answer_query), methods=["GET"]),
            Route(prefix + FOLLOW_PATH, map_errors(self._follow), methods=["GET"]),
        ]

    def other_routes(self, prefix: str) -> list[Route]:
        """Return the routes of 0.3, and those with a tenant, which a card may require."""
        old = [
            Route(
                prefix + path,
                self._errors.map_errors(self.endpoint(operation, OLD), named=True),
                methods=[method],
            )
            for method, path, operation in _ROUTES_03
        ]
        return old + self.routes(f"{prefix}/{{tenant}}")

    def endpoint(self, operation: str, served: Sequence[str] = BOTH) -> Endpoint:
        """Return the endpoint of an operation.

        It accepts the versions in `served`; a sole version applies without being stated.
        """
        answer = self._stream if operation in STREAMING else self._answer

        async def endpoint(request: Request) -> ASGIApp:
            # Before the body is read.
            admission = admit(
                self._services,
                request,
                operation,
                task=task_in(operation, request.path_params),
                tenant=_tenant(request),
            )
            params = await self._params(request, operation)
            requested = forms_of(request)
            if operation in SENDS and served is BOTH and plain_message(params) is None:
                params = _completed(request, requested, params)
            looks_like = served[0] if len(served) == 1 else shape_of_message(params)
            version = check_version(request, looks_like=looks_like, served=served)
            binding = HTTP_FORM
            if not requested.shapes:
                binding = await self._versions.rest(version, operation, params)
            if operation not in binding.operations:
                raise MethodNotFoundError(f"A2A {version} has no operation {operation}")
            params = binding.params(operation, params)
            task = task_in(operation, params)
            call = await admitted_call(
                self._services, request, admission, task=task, version=version
            )
            return await answer(request, _RestRequest(call, requested, binding, operation, params))

        return endpoint

    async def _answer_query(self, request: Request) -> ASGIApp:
        """Send the message in the query, or resume the task in the client's cursor."""
        if request.method == "HEAD":
            return Response(headers=HEADERS)  # HEAD must not start a task.
        if refusal := self._origins.refusal_of_effect(request.headers):
            raise PageRefused(refusal)
        cursor = cursor_of(request)
        operation = "SubscribeToTask" if cursor else "SendStreamingMessage"
        task, _, _ = cursor.rpartition("/")
        call = await call_of(self._services, request, operation, task=task, tenant=_tenant(request))
        check_version(request, looks_like=PROTOCOL_VERSION_1_0)
        call, params = request_of_query(call, request.query_params)
        requested = forms_of(request)
        binding = HTTP_FORM if requested.shapes else HTTP
        return await self._stream(
            request, _RestRequest(call, requested, binding, operation, params, of_task=True)
        )

    async def _follow(self, request: Request) -> ASGIApp:
        """Follow the tasks of a context."""
        check_version(request, looks_like=PROTOCOL_VERSION_1_0)
        call = await call_of(self._services, request, FOLLOW, tenant=_tenant(request))
        return await rest_follow(self._services, call, request.path_params)

    async def _params(self, request: Request, operation: str) -> Json:
        """Return the operation's parameters; those in the path override body and query."""
        given = request.path_params
        in_path = {name: value for name, value in given.items() if name not in _ROUTING}
        if request.method == "POST":
            body = await read_body(request, self._services.body_limits)
            if body:
                check_content_type(request, form=True)
            return (parse_object(body) if body else {}) | in_path
        return from_query(REQUESTS[operation], request.query_params) | in_path

    async def _answer(self, request: Request, rest_request: "_RestRequest") -> Response:
        call, operation = rest_request.call, rest_request.operation
        result = await UNARY[call.operation](self._services, call, rest_request.params)
        content = json_text.encode(rest_request.binding.answer(operation, result))
        return Response(content, 200, call.headers, media_type(request))

    def _stream(self, request: Request, rest_request: "_RestRequest") -> Awaitable[ASGIApp]:
        opening = partial(self._open, rest_request, is_get=request.method == "GET")
        return self._services.stream_limits.with_permit(rest_request.call.caller, opening)

    async def _open(self, rest_request: "_RestRequest", *, is_get: bool) -> ASGIApp:
        call, operation = rest_request.call, rest_request.operation
        services, requested = self._services, rest_request.requested
        options = StreamOptions(requested.ending, rest_request.of_task, is_get)
        try:
            if requested.events:
                return await folded_stream(services, call, operation, rest_request.params, options)
            opening = STREAMING[call.operation](services, call, rest_request.params)
            async with await opening as streaming:
                binding = rest_request.binding
                return rest_stream(services.subscriptions, call, streaming, binding, options)
        except NothingFollows:
            # EventSource reconnects after any other response.
            return Response(status_code=204) if is_get else empty_stream(call)


@dataclass(frozen=True, slots=True)
class _RestRequest:
    """One request."""

    call: Call
    requested: HectorForms
    binding: VersionBinding
    operation: str
    params: Json
    of_task: bool = False
    """Whether the cursors of its stream include the task's id."""


def _tenant(request: Request) -> str:
    """Return the tenant in the path or the query; empty if there is none."""
    return request.path_params.get("tenant") or request.query_params.get("tenant") or ""
