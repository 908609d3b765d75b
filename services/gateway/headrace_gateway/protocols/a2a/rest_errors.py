"""Telling problems in the REST binding's shape, whatever goes wrong behind a route."""

from dataclasses import replace

from a2a.utils.errors import MethodNotFoundError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace_gateway.problems import Problem, headers, problem_of
from headrace_gateway.protocols.a2a.error_shapes import rest_body
from headrace_gateway.protocols.a2a.hector_shapes import hector_error
from headrace_gateway.protocols.hector.asking import asks_for_shapes
from headrace_gateway.server.endpoint import Endpoint, telling
from headrace_gateway.server.json_response import JSON, json_response
from headrace_gateway.server.origin import PageRefused

A2A_JSON = "application/a2a+json"


def media_type(request: Request) -> str:
    """Return the JSON media type to answer in: A2A's own where the client names it."""
    return A2A_JSON if A2A_JSON in request.headers.get("accept", "") else JSON


def answering_errors(endpoint: Endpoint, *, named: bool = False) -> Endpoint:
    """Return `endpoint` with everything that it raises told to the client, as 0.3's if `named`."""

    def tell(request: Request, error: Exception) -> Response:
        return _response(request, problem_of(error), named=named)

    return telling(endpoint, tell)


async def no_such_route(request: Request, error: Exception) -> Response:
    """Answer where the routes end: no such path, or not with that method."""
    problem = problem_of(MethodNotFoundError(f"no {request.method} {request.url.path}"))
    if not isinstance(error, HTTPException):
        return _response(request, problem)
    response = _response(request, replace(problem, http_status=error.status_code))
    response.headers.update(error.headers or {})
    return response


def forbidden(request: Request, refused: PageRefused) -> Response:
    """Answer a page that may not call."""
    return _response(request, problem_of(refused))


def _response(request: Request, problem: Problem, *, named: bool = False) -> Response:
    if asks_for_shapes(request):
        status, content = hector_error(problem)
        return json_response(content, status, headers(problem))
    body = rest_body(problem, named=named)
    return Response(body, problem.http_status, headers(problem), media_type(request))
