"""Errors as MCP's clients get them: JSON-RPC error objects, some with their own HTTP status."""

from http import HTTPStatus

from mcp_types import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from starlette.responses import Response

from headrace.model.events import Json
from headrace_gateway.problems import Problem, headers, problem_of
from headrace_gateway.server.json_response import json_response

_STATED = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
    }
)
"""HTTP statuses that clients and proxies act on. All other errors of a request are a 200, because
some clients do not read the body of another status."""


class RpcError(Exception):
    """An error that MCP defines."""

    def __init__(
        self, code: int, message: str, status: HTTPStatus = HTTPStatus.OK, data: Json | None = None
    ) -> None:
        """Keep the parts of the error object, and the HTTP status of the response."""
        super().__init__(message)
        self.code, self.status, self.data = code, status, data


def invalid_request(rule: str) -> RpcError:
    """Return the error for a body that is no JSON-RPC message."""
    return RpcError(INVALID_REQUEST, rule, HTTPStatus.BAD_REQUEST)


def header_mismatch(rule: str) -> RpcError:
    """Return the error for headers that do not state what the body does."""
    return RpcError(HEADER_MISMATCH, rule, HTTPStatus.BAD_REQUEST)


def unknown_method(method: str, version: str, *, is_modern: bool) -> RpcError:
    """Return the error for a method that the revision, or this server, does not have."""
    status = HTTPStatus.NOT_FOUND if is_modern else HTTPStatus.OK
    return RpcError(METHOD_NOT_FOUND, f"no method {method[:100]!r} in MCP {version}", status)


def unsupported_version(requested: str, supported: tuple[str, ...]) -> RpcError:
    """Return the error for a revision that is not served."""
    message = f"MCP {requested[:40]!r} is not supported; use {' or '.join(supported)}"
    data = {"supported": list(supported), "requested": requested}
    return RpcError(UNSUPPORTED_PROTOCOL_VERSION, message, HTTPStatus.BAD_REQUEST, data)


def missing_capability(needed: Json) -> RpcError:
    """Return the error for a client that has not declared what the request needs."""
    message = "the request needs a capability that the client has not declared"
    data = {"requiredCapabilities": needed}
    return RpcError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, HTTPStatus.BAD_REQUEST, data)


def error_response(request_id: object, error: Exception, *, is_get: bool = False) -> Response:
    """Return the response to a request that ended with `error`.

    A GET asks for a stream, and its error has an HTTP status like that of other streams.
    """
    if isinstance(error, RpcError):
        content: Json = {"code": error.code, "message": str(error)}
        if error.data is not None:
            content["data"] = error.data
        return _response(request_id, content, error.status, {})
    problem = problem_of(error)
    content = {"code": _code(problem), "message": problem.message, "data": _data(problem)}
    status = problem.http_status if is_get else _status(problem)
    return _response(request_id, content, status, headers(problem))


def _code(problem: Problem) -> int:
    """Return the code; MCP has that of invalid parameters for tools and tasks that don't exist."""
    return INVALID_PARAMS if problem.http_status == HTTPStatus.NOT_FOUND else problem.rpc_code


def _status(problem: Problem) -> int:
    if problem.rpc_code == PARSE_ERROR:
        return HTTPStatus.BAD_REQUEST
    return problem.http_status if problem.http_status in _STATED else HTTPStatus.OK


def _data(problem: Problem) -> Json:
    data: Json = {"reason": problem.reason, **problem.metadata}
    if problem.violations:
        data["violations"] = [{"field": v.field, "rule": v.rule} for v in problem.violations]
    return data


def _response(request_id: object, error: Json, status: int, stated: dict[str, str]) -> Response:
    content = {"jsonrpc": "2.0", "id": request_id, "error": error}
    return json_response(content, status, stated)
