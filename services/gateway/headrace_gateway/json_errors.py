"""Errors as a status and ``{"error": {"code", "message"}}``."""

from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace_gateway.problems import headers, problem_of
from headrace_gateway.server.endpoint import Endpoint, answering
from headrace_gateway.server.json_response import json_response


class CodedError(HeadraceError):
    """A request is refused by its code and a status."""

    status: ClassVar[HTTPStatus]


class InputInvalid(CodedError):
    """The body is not what it must be; the message names the field and the rule that it breaks."""

    code = "invalid_input"
    status = HTTPStatus.BAD_REQUEST


class BodyNotJson(CodedError):
    """The body is sent as something else than JSON."""

    code = "unsupported_media_type"
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class ErrorAnswer(NamedTuple):
    """What a client gets to know of an error."""

    status: int
    code: str
    message: str
    headers: dict[str, str]

    @property
    def content(self) -> Json:
        """The body."""
        return {"error": {"code": self.code, "message": self.message}}


def error_answer(error: Exception) -> ErrorAnswer:
    """Return what a client gets to know of `error`."""
    if isinstance(error, CodedError):
        return ErrorAnswer(error.status, error.code, str(error), {})
    problem = problem_of(error)
    code = error.code if isinstance(error, HeadraceError) else problem.reason.lower()
    return ErrorAnswer(problem.http_status, code, problem.message, headers(problem))


def answering_errors(
    endpoint: Endpoint, content: Callable[[ErrorAnswer], Json] = lambda failure: failure.content
) -> Endpoint:
    """Return `endpoint` with an answer to everything that it raises; `content` is its body."""

    def answer(_: Request, error: Exception) -> Response:
        failure = error_answer(error)
        return json_response(content(failure), failure.status, failure.headers)

    return answering(endpoint, answer)


def check_body_type(request: Request) -> None:
    """Return if the body is sent as JSON.

    A page on another site can post forms and plain text here without being asked first, so these
    are no JSON even if they look like it.

    Raises:
        BodyNotJson: it is sent as something else.
    """
    stated = request.headers.get("content-type", "application/json")
    media_type = stated.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise BodyNotJson(f"content-type: {media_type or 'nothing'} is not application/json")
