"""A2A's JSON-RPC binding: one endpoint per agent, and the default agent's at the root."""

import json
from dataclasses import dataclass, replace

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.model.events import Json
from headrace_gateway.call import Call, call_of
from headrace_gateway.problems import headers, problem_of
from headrace_gateway.protocols.a2a.agui_events import agui_stream
from headrace_gateway.protocols.a2a.cards import agent_card
from headrace_gateway.protocols.a2a.content_types import check_content_type
from headrace_gateway.protocols.a2a.error_shapes import rpc_body, rpc_error
from headrace_gateway.protocols.a2a.hector_shapes import (
    RPC_HECTOR,
    ending_for,
    hector_error,
    wording_for,
)
from headrace_gateway.protocols.a2a.json_body import parse
from headrace_gateway.protocols.a2a.older_calls import CARD_GET, modern
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.stream_responses import (
    Manner,
    as_event,
    empty_stream,
    rpc_stream,
)
from headrace_gateway.protocols.a2a.versions import BOTH, check_version, shape_of_call
from headrace_gateway.protocols.a2a.wording import INTERNAL, RPC, Versions, Wording
from headrace_gateway.protocols.hector.asking import asks_for_it
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import read_body
from headrace_gateway.server.json_response import JSON, json_response
from headrace_gateway.services import Services
from headrace_gateway.tasks.subscribe import NothingLeft


def card_get(services: Services, call: Call, versions: Versions) -> Json:
    """Return the asked agent's signed card as its page does: for clients of all `versions`."""
    base = call.base or services.settings.public_url or ""
    said = agent_card(call.card, base, call.grpc, services.callers.known)
    return {"agent": versions.card(services.cards.sign(call.agent, base, said).card)}


type _Id = str | int | float | None


class JsonRpcBinding:
    """The binding's endpoint over the operations."""

    def __init__(self, services: Services, versions: Versions) -> None:
        """Serve the operations over `services`, in those `versions`."""
        self._services, self._versions = services, versions

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes of an agent whose base is `prefix`, with and without a slash."""
        paths = [prefix, f"{prefix}/"] if prefix else ["/"]
        return [Route(path, self.endpoint, methods=["POST"]) for path in paths]

    def older_routes(self, prefix: str) -> list[Route]:
        """Return the route where Hector's clients call."""
        return [Route(f"{prefix}/rpc", self.older, methods=["POST"])]

    async def endpoint(self, request: Request) -> ASGIApp:
        """Answer a call."""
        return await self._serve(request, older=False)

    async def older(self, request: Request) -> ASGIApp:
        """Answer a call that may be as Hector's clients send it."""
        return await self._serve(request, older=True)

    async def _serve(self, request: Request, *, older: bool) -> ASGIApp:
        request_id: _Id = None
        wording, is_stream = wording_for(request, RPC), False
        try:
            # Nothing is read from whom nobody knows.
            caller = self._services.callers.of(request.headers)
            check_content_type(request, form=older)
            body = await read_body(request, self._services.body_limits)
            parsed = parse(body)
            request_id = _id_of(parsed, body)
            method, params = _check_envelope(parsed, request_id)
            if older:
                request, method, params = modern(request, method, params)
            looks_like = shape_of_call(method)
            is_stream = self._versions.rpc[looks_like].operations.get(method) in STREAMING
            version = check_version(request, looks_like=looks_like, served=BOTH)
            wording = wording_for(request, self._versions.rpc[version])
            call = call_of(self._services, request, caller, params.get("tenant"), version)
            if older and method == CARD_GET:
                return _told(
                    request_id,
                    call,
                    wording,
                    CARD_GET,
                    card_get(self._services, call, self._versions),
                )
            return await self._dispatch(_Asked(request, call, wording, request_id, method, params))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            response = _error(request_id, error, wording)
            return as_event(response) if is_stream and wording.streams_errors else response

    async def _dispatch(self, asked: "_Asked") -> ASGIApp:
        operation = asked.wording.operations.get(asked.method)
        if operation is None:
            raise MethodNotFoundError(f"there is no method {asked.method!r}")
        params = asked.wording.params(operation, asked.params)
        if operation in STREAMING:
            return await self._stream(asked, operation, params)
        result = await UNARY[operation](self._services, asked.call, params)
        return _told(asked.id, asked.call, asked.wording, operation, result)

    async def _stream(self, asked: "_Asked", operation: str, params: Json) -> ASGIApp:
        services, call, ending = self._services, asked.call, ending_for(asked.request)

        async def opening() -> ASGIApp:
            try:
                if asks_for_it(asked.request):
                    return await agui_stream(services, call, operation, params, Manner(ending))
                streaming = await STREAMING[operation](services, call, params)
            except NothingLeft:
                return empty_stream(call)
            return rpc_stream(
                services.subscriptions, call, streaming, asked.wording, asked.id, ending
            )

        return await services.stream_limits.with_permit(call.caller, opening)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One JSON-RPC call."""

    request: Request
    call: Call
    wording: Wording
    id: _Id
    method: str
    params: Json


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


def _told(request_id: _Id, call: Call, wording: Wording, operation: str, result: Json) -> Response:
    content = {"jsonrpc": "2.0", "id": request_id, "result": wording.answer(operation, result)}
    return json_response(content, headers=call.headers)


def _error(request_id: _Id, error: Exception, wording: Wording) -> Response:
    problem = problem_of(error)
    if problem.rpc_code in wording.unknown_codes:
        problem = replace(problem, rpc_code=INTERNAL)
    if wording is RPC_HECTOR:
        return json_response(
            {
                "jsonrpc": "2.0",
                "id": request_id,
                "error": rpc_error(problem) | {"data": hector_error(problem)[1]["error"]},
            },
            problem.rpc_http_status,
            headers(problem),
        )
    body = rpc_body(request_id, problem)
    return Response(body, problem.rpc_http_status, headers(problem), JSON)
