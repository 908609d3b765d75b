"""Errors in the format of each JSON binding, and REST's error responses."""

from dataclasses import replace

from a2a.utils.error_handlers import BAD_REQUEST_TYPE, ERROR_INFO_TYPE
from a2a.utils.errors import A2A_REASON_TO_ERROR, MethodNotFoundError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace.model import json_text
from headrace.model.events import Json
from headrace_gateway.problems import Problem, headers, problem_of
from headrace_gateway.protocols.a2a.versions import forms_of, media_type
from headrace_gateway.protocols.hector import forms
from headrace_gateway.refusals import GatewayStarting
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import Endpoint, map_errors
from headrace_gateway.server.origin import PageRefused

RETRY_INFO_TYPE = "type.googleapis.com/google.rpc.RetryInfo"


def details(problem: Problem) -> list[Json]:
    """Return the typed details: an ErrorInfo, the invalid fields, the retry delay."""
    found: list[Json] = [
        {
            "@type": ERROR_INFO_TYPE,
            "reason": problem.reason,
            "domain": problem.domain,
            "metadata": dict(problem.metadata),
        }
    ]
    if problem.violations:
        fields = [{"field": v.field, "description": v.rule} for v in problem.violations]
        found.append({"@type": BAD_REQUEST_TYPE, "fieldViolations": fields})
    if problem.retry_after is not None:
        found.append({"@type": RETRY_INFO_TYPE, "retryDelay": f"{problem.retry_after}s"})
    return found


def rest_body(problem: Problem, *, named: bool = False) -> bytes:
    """Return the REST binding's body; `named` adds the error's name, which 0.3's clients need."""
    error = {
        "code": problem.http_status,
        "status": problem.grpc_status,
        "message": problem.message,
        "details": details(problem),
    }
    if named and problem.reason in A2A_REASON_TO_ERROR:
        kind = A2A_REASON_TO_ERROR[problem.reason].__name__
        return json_text.encode({"type": kind, "message": problem.message, "error": error})
    return json_text.encode({"error": error})


def rpc_body(request_id: object, problem: Problem, data: Json | None = None) -> bytes:
    """Return the JSON-RPC error response to a request; `data` replaces A2A's own error data."""
    error = rpc_error(problem) | ({} if data is None else {"data": data})
    return json_text.encode({"jsonrpc": "2.0", "id": request_id, "error": error})


def rpc_error(problem: Problem) -> Json:
    """Return the JSON-RPC error object."""
    return {"code": problem.rpc_code, "message": problem.message, "data": details(problem)}


class RestErrors:
    """Error responses, in Hector's shapes if the client requests them."""

    def map_errors(self, endpoint: Endpoint, *, named: bool = False) -> Endpoint:
        """Return `endpoint` with a response for each error it raises; `named` as in `rest_body`."""

        def respond(request: Request, error: Exception) -> Response:
            return self._response(request, problem_of(error), named=named)

        return map_errors(endpoint, respond)

    async def no_such_route(self, request: Request, error: Exception) -> Response:
        """Return the response for an unknown path or method."""
        problem = problem_of(MethodNotFoundError(f"no {request.method} {request.url.path}"))
        if not isinstance(error, HTTPException):
            return self._response(request, problem)
        response = self._response(request, replace(problem, http_status=error.status_code))
        response.headers.update(error.headers or {})
        return response

    async def starting(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - a handler
        """Return the response of a gateway that cannot serve yet."""
        return self._response(request, problem_of(GatewayStarting()))

    def forbidden(self, request: Request, refused: PageRefused) -> Response:
        """Return the response for a web page that may not call."""
        return self._response(request, problem_of(refused))

    def _response(self, request: Request, problem: Problem, *, named: bool = False) -> Response:
        if forms_of(request).shapes:
            status, content = forms.error(problem)
            return json_response(content, status, headers(problem))
        body = rest_body(problem, named=named)
        return Response(body, problem.http_status, headers(problem), media_type(request))
