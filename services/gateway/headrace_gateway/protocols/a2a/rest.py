"""A2A's REST binding (HTTP+JSON): the routes of one agent, and the default agent's at the root."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import orjson
from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0
from a2a.utils.errors import MethodNotFoundError
from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.model.events import Json
from headrace_gateway.call import IDEMPOTENCY_KEY, Call, call_of, cursor_of
from headrace_gateway.protocols.a2a.errors import RestErrors, media_type
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.protojson import from_query
from headrace_gateway.protocols.a2a.stream_responses import Manner, empty_stream, rest_stream
from headrace_gateway.protocols.a2a.variants import (
    SENDS,
    Variant,
    folded_stream,
    http_wording,
    reads_short,
)
from headrace_gateway.protocols.a2a.versions import (
    BOTH,
    HTTP,
    OLD,
    Versions,
    Wording,
    check_version,
    shape_of_message,
)
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import check_content_type, parse_object, read_body
from headrace_gateway.server.endpoint import Endpoint
from headrace_gateway.server.origin import Origins, PageRefused
from headrace_gateway.services import Services
from headrace_gateway.streaming.sse import HEADERS
from headrace_gateway.tasks.subscribe import NothingFollows

_IDS = ("contextId", "messageId", "taskId")
"""Of the message, for those who send its text alone."""


def asked_by_get(variant: Variant, call: Call, query: QueryParams) -> tuple[Call, Json]:
    """Return what a message in a URL asks: the call with its cursor, and the parameters.

    ``EventSource`` can only GET, and asks again whenever it reconnects. So the cursors of such a
    stream say whose task it is, ``<task>/<cursor>``. A request with one goes on with that task,
    whatever message its URL repeats: nothing is asked twice.

    What a text alone leaves out of a message, `variant` adds.

    Raises:
        Malformed: the query holds no message, or the cursor is none of such a stream's.
        JSONParseError: the message begins as an object, but is no JSON.
    """
    if call.cursor:
        task, _, cursor = call.cursor.rpartition("/")
        if not task or not cursor:
            rule = "must be the id of an event of this stream: a task and a cursor"
            raise Malformed([Violation("Last-Event-ID", rule)])
        return replace(call, cursor=cursor), {"id": task}
    key = call.idempotency_key or query.get(IDEMPOTENCY_KEY)
    params = variant.complete({"message": _message(query)})
    return replace(call, idempotency_key=key), params


def _message(query: QueryParams) -> Json:
    """Return the message: JSON as it would stand in a body, or its text."""
    said = query.get("message", "")
    if not said:
        raise Malformed([Violation("message", "is required in the query: its text, or JSON")])
    if said.lstrip().startswith("{"):
        return parse_object(said.encode())
    return {"parts": [{"text": said}], **{name: query[name] for name in _IDS if query.get(name)}}


_CONFIGS = "/tasks/{taskId}/pushNotificationConfigs"

_ROUTES = (
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
)
"""Method, path and operation, the most used first."""

_FROM_QUERY = "/message:stream"
"""Where a message is sent by GET too."""

_ROUTES_03 = (
    *((method, f"/v1{path}", operation) for method, path, operation in _ROUTES[:6]),
    *((method, f"/v1{path}", operation) for method, path, operation in _ROUTES[7:11]),
    ("GET", "/v1/card", "GetExtendedAgentCard"),
)
"""The same in 0.3, which has no list of tasks."""

_ROUTING = ("agent", "tenant")
"""Names in paths that say where to go and are no parameters."""

_REQUESTS: Mapping[str, type[Message]] = {
    method.name: getattr(a2a_pb2, method.input_type.name)
    for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
} | {"DeleteTask": a2a_pb2.CancelTaskRequest}


class RestBinding:
    """The binding's routes over the operations."""

    def __init__(
        self, services: Services, versions: Versions, variant: Variant, errors: RestErrors
    ) -> None:
        """Serve the operations over `services`, in those `versions`, or in that `variant`."""
        self._services, self._origins = services, Origins(services.settings)
        self._versions, self._variant, self._errors = versions, variant, errors
        self._in_variant = http_wording(variant)

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes under `prefix`, the path of an agent or nothing."""
        answering = self._errors.answering
        return [
            *(
                Route(prefix + path, answering(self.endpoint(operation)), methods=[method])
                for method, path, operation in _ROUTES
            ),
            Route(prefix + _FROM_QUERY, answering(self._asked_by_get), methods=["GET"]),
        ]

    def other_routes(self, prefix: str) -> list[Route]:
        """Return the same routes as 0.3 has them, and with a tenant, which a card may ask for."""
        old = [
            Route(
                prefix + path,
                self._errors.answering(self.endpoint(operation, OLD), named=True),
                methods=[method],
            )
            for method, path, operation in _ROUTES_03
        ]
        return old + self.routes(f"{prefix}/{{tenant}}")

    def endpoint(self, operation: str, served: Sequence[str] = BOTH) -> Endpoint:
        """Return what carries out the operation that a request asks for.

        In one of the versions `served`; in the first one if the request does not say.
        """
        answer = self._stream if operation in STREAMING else self._answer

        async def endpoint(request: Request) -> ASGIApp:
            task = request.path_params.get("id")
            call = call_of(self._services, request, operation, task=task, tenant=_tenant(request))
            params = await self._params(request, operation)
            if operation in SENDS and served is BOTH:
                params = self._whole(request, params)
            looks_like = served[0] if len(served) == 1 else shape_of_message(params)
            version = check_version(request, looks_like=looks_like, served=served)
            call = replace(call, version=version)
            is_old = version == PROTOCOL_VERSION_0_3
            usual = self._versions.old_rest(operation, params) if is_old else HTTP
            wording = self._wording(request, usual)
            if operation not in wording.operations:
                raise MethodNotFoundError(f"A2A {version} has no {operation}")
            params = wording.params(operation, params)
            return await answer(request, _RestRequest(call, wording, operation, params))

        return endpoint

    async def _asked_by_get(self, request: Request) -> ASGIApp:
        """Send the message in the query, or go on with the task in the client's cursor.

        Raises:
            PageRefused: a page asks that may not start work.
            A2AError, HeadraceError: as the operation.
        """
        if request.method == "HEAD":
            return Response(headers=HEADERS)  # Nothing is started for nobody.
        if refusal := self._origins.refusal_of_effect(request.headers):
            raise PageRefused(refusal)
        cursor = cursor_of(request)
        operation = "SubscribeToTask" if cursor else "SendStreamingMessage"
        task, _, _ = cursor.rpartition("/")
        call = call_of(self._services, request, operation, task=task, tenant=_tenant(request))
        check_version(request, looks_like=PROTOCOL_VERSION_1_0)
        call, params = asked_by_get(self._variant, call, request.query_params)
        wording = self._wording(request, HTTP)
        return await self._stream(
            request, _RestRequest(call, wording, operation, params, of_task=True)
        )

    def _whole(self, request: Request, params: Json) -> Json:
        """Return a message's parameters with what a short one leaves out."""
        is_short = reads_short(self._variant, request, params)
        return self._variant.complete(params) if is_short else params

    def _wording(self, request: Request, usual: Wording) -> Wording:
        return self._in_variant if self._variant.wants_shapes(request) else usual

    async def _params(self, request: Request, operation: str) -> Json:
        """Return the operation's parameters: those in the path beat body and query."""
        given = request.path_params
        in_path = {name: value for name, value in given.items() if name not in _ROUTING}
        if request.method == "POST":
            body = await read_body(request, self._services.body_limits)
            if body:
                check_content_type(request, form=True)
            return (parse_object(body) if body else {}) | in_path
        return from_query(_REQUESTS[operation], request.query_params) | in_path

    async def _answer(self, request: Request, asked: "_RestRequest") -> Response:
        call, operation = asked.call, asked.operation
        result = await UNARY[operation](self._services, call, asked.params)
        content = orjson.dumps(asked.wording.answer(operation, result))
        return Response(content, 200, call.headers, media_type(request))

    async def _stream(self, request: Request, asked: "_RestRequest") -> ASGIApp:
        call, operation = asked.call, asked.operation
        services, variant = self._services, self._variant
        manner = Manner(variant.ending(request), asked.of_task, request.method == "GET")

        async def opening() -> ASGIApp:
            try:
                if variant.wants_events(request):
                    return await folded_stream(
                        services, variant, call, operation, asked.params, manner
                    )
                streaming = await STREAMING[operation](services, call, asked.params)
            except NothingFollows:
                # EventSource reconnects after anything else.
                return Response(status_code=204) if request.method == "GET" else empty_stream(call)
            return rest_stream(services.subscriptions, call, streaming, asked.wording, manner)

        return await services.stream_limits.with_permit(call.caller, opening)


@dataclass(frozen=True, slots=True)
class _RestRequest:
    """One request."""

    call: Call
    wording: Wording
    operation: str
    params: Json
    of_task: bool = False
    """Whether its stream's cursors are to say whose task it is."""


def _tenant(request: Request) -> str:
    """Return the tenant, which stands in the path or in the query; empty: there is none."""
    return request.path_params.get("tenant") or request.query_params.get("tenant") or ""
