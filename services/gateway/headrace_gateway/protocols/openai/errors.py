"""Errors as OpenAI's API reports them."""

from http import HTTPStatus
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from headrace.model.errors import TaskUnknown
from headrace.model.events import Json
from headrace_gateway.json_errors import CodedError, InputInvalid, error_answer
from headrace_gateway.problems import problem_of
from headrace_gateway.refusals import AgentUnknown, Malformed, Unanswered
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import Endpoint, map_errors

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_SERVER = 500
"""Lowest status of errors that are not the client's."""

NO_RETRY = {"x-should-retry": "false"}
"""Header that keeps OpenAI's clients from sending the request, and so the work, again."""


class RequestInvalid(InputInvalid):
    """A field of the request is invalid."""

    code = "invalid_value"

    def __init__(self, param: str, rule: str) -> None:
        """Name the field, by its path, and the rule that it breaks."""
        super().__init__(f"{param}: {rule}")
        self.param = param


class ResponseUnknown(CodedError):
    """The caller has no such response."""

    code = "not_found"
    status = HTTPStatus.NOT_FOUND

    def __init__(self, response: str) -> None:
        """Name the response."""
        super().__init__(f"Response with id {response!r} not found.")


class RunFailed(CodedError):
    """The agent's run failed; a chat completion has no state for that."""

    code = "agent_failed"
    status = HTTPStatus.BAD_GATEWAY


class _OpenAIFailure(NamedTuple):
    status: int
    headers: dict[str, str]
    code: str
    message: str
    param: str | None = None


def error_body(status: int, code: str | None, message: str, param: str | None = None) -> Json:
    """Return an error's body."""
    usual = "server_error" if status >= _SERVER else "invalid_request_error"
    kind = _TYPES.get(status, usual)
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def with_errors(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint` with an answer to every exception."""
    return map_errors(endpoint, _respond)


def _respond(_: Request, error: Exception) -> Response:
    failure = _failure(error)
    content = error_body(failure.status, failure.code, failure.message, failure.param)
    return json_response(content, failure.status, failure.headers)


def _failure(error: Exception) -> _OpenAIFailure:
    if isinstance(error, AgentUnknown):
        message = f"The model {error.name!r} does not exist: no agent of the fleet has that name."
        return _OpenAIFailure(404, {}, "model_not_found", message, "model")
    if isinstance(error, Malformed):
        [first, *_] = error.violations
        problem_of(error)  # counts the refusal
        return _OpenAIFailure(400, {}, "invalid_value", f"{first.field}: {first.rule}", first.field)
    answer = error_answer(error)
    headers = answer.headers | (NO_RETRY if isinstance(error, Unanswered | RunFailed) else {})
    code = "not_found" if isinstance(error, TaskUnknown) else answer.code
    param = error.param if isinstance(error, RequestInvalid) else None
    return _OpenAIFailure(answer.status, headers, code, answer.message, param)
