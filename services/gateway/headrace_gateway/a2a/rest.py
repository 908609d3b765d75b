"""A2A's REST binding (HTTP+JSON): the routes of one agent, and the default agent's at the root."""

from collections.abc import Mapping

import orjson
from a2a.types import a2a_pb2
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.events import Json
from headrace_gateway.a2a.agui_events import agui_stream
from headrace_gateway.a2a.call import Call, call_of
from headrace_gateway.a2a.content_types import check_content_type
from headrace_gateway.a2a.json_body import parse_object
from headrace_gateway.a2a.operations import STREAMING, UNARY
from headrace_gateway.a2a.query import from_query
from headrace_gateway.a2a.rest_errors import Endpoint, answering_errors, media_type
from headrace_gateway.a2a.stream_responses import empty_stream, rest_stream
from headrace_gateway.a2a.subscribing import NothingLeft
from headrace_gateway.a2a.versions import check_version, shape_of_message
from headrace_gateway.body import read_body
from headrace_gateway.hector.asking import asks_for_it
from headrace_gateway.hector.messages import completed
from headrace_gateway.services import Services

_CONFIGS = "/tasks/{task_id}/pushNotificationConfigs"

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
)
"""Method, path and operation, the most used first."""

_SEND = "SendStreamingMessage"

_REQUESTS: Mapping[str, type[Message]] = {
    method.name: getattr(a2a_pb2, method.input_type.name)
    for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
}


class RestBinding:
    """The binding's routes over the operations."""

    def __init__(self, services: Services) -> None:
        """Serve the operations over `services`."""
        self._services = services

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes under `prefix`, the path of an agent or nothing."""
        return [
            Route(prefix + path, answering_errors(self.endpoint(operation)), methods=[method])
            for method, path, operation in _ROUTES
        ]

    def endpoint(self, operation: str) -> Endpoint:
        """Return what carries out the operation that a request asks for."""
        answer = self._stream if operation in STREAMING else self._answer

        async def endpoint(request: Request) -> ASGIApp:
            call = call_of(self._services, request)
            params = await self._params(request, operation)
            if operation == _SEND and asks_for_it(request):
                params = completed(params)
            check_version(request, looks_like=shape_of_message(params))
            return await answer(request, call, operation, params)

        return endpoint

    async def _params(self, request: Request, operation: str) -> Json:
        """Return the operation's parameters: those in the path beat body and query."""
        in_path = {name: value for name, value in request.path_params.items() if name != "agent"}
        if request.method == "POST":
            body = await read_body(request, self._services.settings.max_body_bytes)
            if body:
                check_content_type(request, form=True)
            return (parse_object(body) if body else {}) | in_path
        return from_query(_REQUESTS[operation], request.query_params) | in_path

    async def _answer(self, request: Request, call: Call, operation: str, params: Json) -> Response:
        result = await UNARY[operation](self._services, call, params)
        return Response(orjson.dumps(result), 200, call.headers, media_type(request))

    async def _stream(self, request: Request, call: Call, operation: str, params: Json) -> ASGIApp:
        async def opening() -> ASGIApp:
            try:
                if asks_for_it(request):
                    return await agui_stream(self._services, call, operation, params)
                streaming = await STREAMING[operation](self._services, call, params)
            except NothingLeft:
                # EventSource reconnects after anything else.
                return Response(status_code=204) if request.method == "GET" else empty_stream(call)
            return rest_stream(self._services.event_streams, call, streaming)

        return await self._services.seats.seated(call.caller, opening)
