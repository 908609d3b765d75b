"""Errors in the REST binding's shape, whatever goes wrong behind a route."""

from dataclasses import replace

from a2a.utils.errors import MethodNotFoundError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace_gateway.problems import Problem, headers, problem_of
from headrace_gateway.protocols.a2a.error_shapes import rest_body
from headrace_gateway.protocols.a2a.variants import Variant
from headrace_gateway.server.endpoint import Endpoint, answering
from headrace_gateway.server.json_response import JSON, json_response
from headrace_gateway.server.origin import PageRefused

A2A_JSON = "application/a2a+json"


def media_type(request: Request) -> str:
    """Return the JSON media type to answer in: A2A's own where the client names it."""
    return A2A_JSON if A2A_JSON in request.headers.get("accept", "") else JSON


class RestErrors:
    """Answers what is refused, in the shapes of a variant where the client asks for them."""

    def __init__(self, variant: Variant) -> None:
        """Know that variant."""
        self._variant = variant

    def answering(self, endpoint: Endpoint, *, named: bool = False) -> Endpoint:
        """Return `endpoint` with an answer to everything that it raises, as 0.3's if `named`."""

        def answer(request: Request, error: Exception) -> Response:
            return self._response(request, problem_of(error), named=named)

        return answering(endpoint, answer)

    async def no_such_route(self, request: Request, error: Exception) -> Response:
        """Answer where the routes end: no such path, or not with that method."""
        problem = problem_of(MethodNotFoundError(f"no {request.method} {request.url.path}"))
        if not isinstance(error, HTTPException):
            return self._response(request, problem)
        response = self._response(request, replace(problem, http_status=error.status_code))
        response.headers.update(error.headers or {})
        return response

    def forbidden(self, request: Request, refused: PageRefused) -> Response:
        """Answer a page that may not call."""
        return self._response(request, problem_of(refused))

    def _response(self, request: Request, problem: Problem, *, named: bool = False) -> Response:
        if self._variant.wants_shapes(request):
            status, content = self._variant.shapes.error(problem)
            return json_response(content, status, headers(problem))
        body = rest_body(problem, named=named)
        return Response(body, problem.http_status, headers(problem), media_type(request))
