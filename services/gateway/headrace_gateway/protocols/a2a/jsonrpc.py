"""A2A's JSON-RPC binding: one endpoint per agent, and the default agent's at the root."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial

from a2a.utils.errors import InvalidRequestError, MethodNotFoundError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.model.events import Json
from headrace_gateway.call import Call, call_of, caller_of
from headrace_gateway.problems import headers, problem_of
from headrace_gateway.protocols.a2a.cards import GET_CARD, signed_card
from headrace_gateway.protocols.a2a.errors import rpc_body
from headrace_gateway.protocols.a2a.follow import FOLLOW, rpc_follow
from headrace_gateway.protocols.a2a.hector_forms import RPC_FORM, folded_stream, reads_short
from headrace_gateway.protocols.a2a.operations import STREAMING, UNARY
from headrace_gateway.protocols.a2a.parameters import task_in
from headrace_gateway.protocols.a2a.stream_responses import (
    StreamOptions,
    as_event,
    empty_stream,
    rpc_stream,
)
from headrace_gateway.protocols.a2a.versions import (
    BOTH,
    INTERNAL,
    RPC,
    HectorForms,
    VersionBinding,
    Versions,
    check_version,
    forms_of,
    shape_of_call,
)
from headrace_gateway.protocols.hector import forms
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import check_content_type, parse, read_body
from headrace_gateway.server.endpoints import EndpointApp
from headrace_gateway.server.json_response import JSON, json_response
from headrace_gateway.server.open_requests import Endpoint, protocol_of, requests_of
from headrace_gateway.services import Services
from headrace_gateway.tasks.subscribe import NothingFollows


async def get_card(services: Services, call: Call, versions: Versions) -> Json:
    """Return the agent's signed card as on its page, for clients of all `versions`."""
    signed = await signed_card(services, call.connection, call.card)
    return {"agent": await versions.card(signed.card, services.default_agent)}


type _Id = str | int | float | None


class JsonRpcBinding:
    """The binding's endpoint over the operations."""

    def __init__(self, services: Services, versions: Versions) -> None:
        """Serve the operations over `services`, in those `versions`, or in Hector's shapes."""
        self._services, self._versions = services, versions

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes of an agent whose base is `prefix`, with and without a slash."""
        paths = [prefix, f"{prefix}/"] if prefix else ["/"]
        endpoint = EndpointApp(self.endpoint())
        return [Route(path, endpoint, methods=["POST"]) for path in paths]

    def endpoint(self, *, is_hectors: bool = False) -> Endpoint:
        """Return the endpoint for calls, which may have Hector's forms if it `is_hectors`."""
        return partial(self._serve, is_hectors)

    async def _serve(self, is_hectors: bool, request: Request) -> ASGIApp:  # noqa: FBT001 - see above
        request_id: _Id = None
        requested = forms_of(request)
        binding, is_stream = RPC_FORM if requested.shapes else RPC, False
        try:
            one = requests_of(request.scope).one(protocol_of(request.scope), "jsonrpc")
            async with one:
                # Authenticate the caller before the body is read.
                caller_of(self._services, request)
                check_content_type(request, form=is_hectors)
                body = await read_body(request, self._services.body_limits)
                parsed = parse(body)
                request_id = _id_of(parsed)
                method, params = _check_envelope(parsed, request_id)
                if is_hectors:
                    is_short = reads_short(requested, request, params)
                    request, method, params = forms.adapted(
                        request, method, params, is_short=is_short
                    )
                looks_like = shape_of_call(method)
                shaped = await self._versions.rpc(looks_like, method, params)
                is_stream = shaped.operations.get(method) in STREAMING
                version = check_version(request, looks_like=looks_like, served=BOTH)
                if not requested.shapes:
                    binding = (
                        shaped
                        if version == looks_like
                        else await self._versions.rpc(version, method, params)
                    )
                operation = _operation(binding, method, has_cards=is_hectors)
                tenant = params.get("tenant")
                if operation != GET_CARD:
                    params = binding.params(operation, params)
                call = await call_of(
                    self._services,
                    request,
                    operation,
                    task=task_in(operation, params),
                    tenant=tenant,
                    version=version,
                )
                rpc_call = _RpcCall(requested, call, binding, request_id, params)
                return one.with_headers(await self._dispatch(rpc_call))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:  # noqa: BLE001 - all errors are sent in the protocol's format
            response = self._error(request_id, error, binding)
            return as_event(response) if is_stream and binding.streams_errors else response

    def _dispatch(self, rpc_call: "_RpcCall") -> Awaitable[ASGIApp]:
        operation = rpc_call.call.operation
        if operation == GET_CARD:
            return self._card(rpc_call)
        if operation == FOLLOW:
            return rpc_follow(self._services, rpc_call.call, rpc_call.params, rpc_call.id)
        if operation in STREAMING:
            opening = partial(self._stream, rpc_call, operation, rpc_call.params)
            return self._services.stream_limits.with_permit(rpc_call.call.caller, opening)
        return self._answer(rpc_call, operation, rpc_call.params)

    async def _card(self, rpc_call: "_RpcCall") -> ASGIApp:
        found = await get_card(self._services, rpc_call.call, self._versions)
        if rpc_call.binding is RPC_FORM:
            found["declared"] = rpc_call.call.card.capabilities
        return _result(rpc_call.id, rpc_call.call, rpc_call.binding, GET_CARD, found)

    async def _answer(self, rpc_call: "_RpcCall", operation: str, params: Json) -> ASGIApp:
        result = await UNARY[rpc_call.call.operation](self._services, rpc_call.call, params)
        return _result(rpc_call.id, rpc_call.call, rpc_call.binding, operation, result)

    async def _stream(self, rpc_call: "_RpcCall", operation: str, params: Json) -> ASGIApp:
        services, call, ending = self._services, rpc_call.call, rpc_call.requested.ending
        try:
            if rpc_call.requested.events:
                return await folded_stream(services, call, operation, params, StreamOptions(ending))
            async with await STREAMING[call.operation](services, call, params) as streaming:
                return rpc_stream(
                    services.subscriptions, call, streaming, rpc_call.binding, rpc_call.id, ending
                )
        except NothingFollows:
            return empty_stream(call)

    def _error(self, request_id: _Id, error: Exception, binding: VersionBinding) -> Response:
        problem = problem_of(error)
        if problem.rpc_code in binding.unknown_codes:
            problem = replace(problem, rpc_code=INTERNAL)
        if binding is RPC_FORM:
            _, content = forms.error(problem)
            body = rpc_body(request_id, problem, content["error"])
        else:
            body = rpc_body(request_id, problem)
        return Response(body, problem.rpc_http_status, headers(problem), JSON)


def _operation(binding: VersionBinding, method: str, *, has_cards: bool) -> str:
    """Return A2A's name of a method's operation; `has_cards`: `GET_CARD` is one.

    Raises:
        MethodNotFoundError: the binding has no such method.
    """
    if has_cards and method == GET_CARD:
        return GET_CARD
    operation = binding.operations.get(method)
    if operation is None:
        raise MethodNotFoundError(f"A2A {binding.version} has no method {method!r}")
    return operation


@dataclass(frozen=True, slots=True)
class _RpcCall:
    """One JSON-RPC call."""

    requested: HectorForms
    call: Call
    binding: VersionBinding
    id: _Id
    params: Json


def _id_of(parsed: object) -> _Id:
    """Return the id for the response to `parsed`; None if it has no valid one."""
    given = parsed.get("id") if isinstance(parsed, dict) else None
    return given if isinstance(given, str | int | float) and not isinstance(given, bool) else None


def _check_envelope(parsed: object, request_id: _Id) -> tuple[str, Json]:
    """Return the method and parameters of a JSON-RPC request.

    Raises:
        InvalidRequestError: it is not a valid JSON-RPC request.
        Malformed: its parameters are not an object.
    """
    if not isinstance(parsed, dict):
        raise InvalidRequestError("a request must be one JSON object; batches are not supported")
    if parsed.get("jsonrpc") != "2.0":
        raise InvalidRequestError('jsonrpc must be "2.0"')
    if parsed.get("id") != request_id:
        raise InvalidRequestError("id must be a string, a number or null")
    method, params = parsed.get("method"), parsed.get("params")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError("method must be a string")
    if params is not None and not isinstance(params, dict):
        raise Malformed([Violation("params", "must be an object")])
    return method, params or {}


def _result(
    request_id: _Id, call: Call, binding: VersionBinding, operation: str, result: Json
) -> Response:
    content = {"jsonrpc": "2.0", "id": request_id, "result": binding.answer(operation, result)}
    return json_response(content, headers=call.headers)
