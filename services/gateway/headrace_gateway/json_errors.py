"""Errors as a status and ``{"error": {"code", "message"}}``."""

from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar, NamedTuple

import orjson
from starlette.requests import Request
from starlette.responses import Response

from headrace.model import json_text
from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace.model.subjects import LONGEST_CONTEXT
from headrace_gateway.problems import headers, problem_of
from headrace_gateway.server.body import BodyLimits, read_body
from headrace_gateway.server.json_response import json_response
from headrace_gateway.server.open_requests import Endpoint, map_errors


class CodedError(HeadraceError):
    """A refusal with its own code and status."""

    status: ClassVar[HTTPStatus]


class InputInvalid(CodedError):
    """The body is invalid; the message names the field and the rule that it breaks."""

    code = "invalid_input"
    status = HTTPStatus.BAD_REQUEST


class BodyNotJson(CodedError):
    """The body's content type is not JSON."""

    code = "unsupported_media_type"
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class ErrorAnswer(NamedTuple):
    """An error as sent to the client."""

    status: int
    code: str
    message: str
    headers: dict[str, str]

    @property
    def content(self) -> Json:
        """The body."""
        return {"error": {"code": self.code, "message": self.message}}


def error_answer(error: Exception) -> ErrorAnswer:
    """Return the answer for `error`."""
    if isinstance(error, CodedError):
        return ErrorAnswer(error.status, error.code, str(error), {})
    problem = problem_of(error)
    code = error.code if isinstance(error, HeadraceError) else problem.reason.lower()
    return ErrorAnswer(problem.http_status, code, problem.message, headers(problem))


def map_errors_to_json(
    endpoint: Endpoint, content: Callable[[ErrorAnswer], Json] = lambda failure: failure.content
) -> Endpoint:
    """Return `endpoint` with an answer to every exception; `content` makes its body."""

    def respond(_: Request, error: Exception) -> Response:
        failure = error_answer(error)
        return json_response(content(failure), failure.status, failure.headers)

    return map_errors(endpoint, respond)


def check_body_type(request: Request) -> None:
    """Check that the body is sent as JSON.

    Pages on other sites can post forms and plain text without a CORS preflight, so these types are
    refused even if the content looks like JSON.

    Raises:
        BodyNotJson: it has another content type.
    """
    stated = request.headers.get("content-type", "application/json")
    media_type = stated.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise BodyNotJson(f"content-type: must be application/json, not {media_type or 'empty'}")


async def read_object(
    request: Request, limits: BodyLimits, most: int | None = None, *, may_be_empty: bool = False
) -> Json:
    """Return the JSON object in a request's body: an empty one for none, if that `may_be_empty`.

    `most` as of `read_body`.

    Raises:
        InputInvalid: the body is not a JSON object.
        BodyNotJson, BodyTooLarge: it can't be read.
    """
    check_body_type(request)
    body = await read_body(request, limits, most)
    return {} if may_be_empty and not body else json_object(body)


def json_object(body: bytes, what: str = "the body") -> Json:
    """Return the JSON object in `body`, which errors call `what`.

    Raises:
        InputInvalid: it is not JSON, or not an object.
    """
    try:
        parsed = json_text.decode_foreign(body)
    except orjson.JSONDecodeError as error:
        raise InputInvalid(f"{what} is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise InputInvalid(f"{what} must be a JSON object")
    return parsed


def check_id(field: str, value: str) -> None:
    """Check an id in a request: of a thread, a chat or a run.

    Raises:
        InputInvalid: it is empty, or longer than `LONGEST_CONTEXT` characters.
    """
    if not value:
        raise InputInvalid(f"{field}: must not be empty")
    if len(value) > LONGEST_CONTEXT:
        raise InputInvalid(f"{field}: must not be longer than {LONGEST_CONTEXT} characters")
