"""A2A's JSON-RPC binding: one endpoint per agent, and the default agent's at the root."""

import json

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.events import Json
from headrace_gateway.a2a.agui_events import agui_stream
from headrace_gateway.a2a.call import Call, call_of
from headrace_gateway.a2a.content_types import check_content_type
from headrace_gateway.a2a.error_shapes import headers, rpc_body
from headrace_gateway.a2a.json_body import parse
from headrace_gateway.a2a.operations import STREAMING, UNARY
from headrace_gateway.a2a.problems import problem_of
from headrace_gateway.a2a.protojson import Malformed, Violation
from headrace_gateway.a2a.stream_responses import empty_stream, rpc_stream
from headrace_gateway.a2a.subscribing import NothingLeft
from headrace_gateway.a2a.versions import check_version, shape_of_call
from headrace_gateway.body import read_body
from headrace_gateway.hector.asking import asks_for_it
from headrace_gateway.json_response import JSON, json_response
from headrace_gateway.services import Services

type _Id = str | int | float | None


class JsonRpcBinding:
    """The binding's endpoint over the operations."""

    def __init__(self, services: Services) -> None:
        """Serve the operations over `services`."""
        self._services = services

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes of an agent whose base is `prefix`, with and without a slash."""
        paths = [prefix, f"{prefix}/"] if prefix else ["/"]
        return [Route(path, self.endpoint, methods=["POST"]) for path in paths]

    async def endpoint(self, request: Request) -> ASGIApp:
        """Answer a call."""
        request_id: _Id = None
        try:
            # Nothing is read from whom nobody knows.
            caller = self._services.callers.of(request.headers)
            check_content_type(request)
            body = await read_body(request, self._services.settings.max_body_bytes)
            parsed = parse(body)
            request_id = _id_of(parsed, body)
            method, params = _check_envelope(parsed, request_id)
            call = call_of(self._services, request, caller)
            check_version(request, looks_like=shape_of_call(method, params))
            return await self._dispatch(request, call, request_id, method, params)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            return _error(request_id, error)

    async def _dispatch(
        self, request: Request, call: Call, request_id: _Id, method: str, params: Json
    ) -> ASGIApp:
        if (unary := UNARY.get(method)) is not None:
            result = await unary(self._services, call, params)
            content = {"jsonrpc": "2.0", "id": request_id, "result": result}
            return json_response(content, headers=call.headers)
        if (stream := STREAMING.get(method)) is None:
            raise MethodNotFoundError(f"there is no method {method!r}")

        async def opening() -> ASGIApp:
            try:
                if asks_for_it(request):
                    return await agui_stream(self._services, call, method, params)
                streaming = await stream(self._services, call, params)
            except NothingLeft:
                return empty_stream(call)
            return rpc_stream(self._services.event_streams, call, streaming, request_id)

        return await self._services.seats.seated(call.caller, opening)


def _id_of(parsed: object, body: bytes) -> _Id:
    """Return the id that an answer to `parsed` carries: null, if it has none that can be one."""
    given = parsed.get("id") if isinstance(parsed, dict) else None
    if isinstance(given, float) and isinstance(json.loads(body)["id"], int):
        return None  # A whole number beyond 64 bits, of which the parser keeps about 16 digits.
    return given if isinstance(given, str | int | float) and not isinstance(given, bool) else None


def _check_envelope(parsed: object, request_id: _Id) -> tuple[str, Json]:
    """Return method and parameters of a JSON-RPC request.

    Raises:
        InvalidRequestError: it is none.
        Malformed: its parameters are not by name.
    """
    if not isinstance(parsed, dict):
        raise InvalidRequestError("a request is one JSON object; batches are not served")
    if parsed.get("jsonrpc") != "2.0":
        raise InvalidRequestError('jsonrpc must be "2.0"')
    if parsed.get("id") != request_id:
        raise InvalidRequestError("id must be a string, a number of at most 64 bits or null")
    method, params = parsed.get("method"), parsed.get("params")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError("method must be a string")
    if params is not None and not isinstance(params, dict):
        raise Malformed([Violation("params", "must be an object")])
    return method, params or {}


def _error(request_id: _Id, error: Exception) -> Response:
    problem = problem_of(error)
    body = rpc_body(request_id, problem)
    return Response(body, problem.rpc_http_status, headers(problem), JSON)
