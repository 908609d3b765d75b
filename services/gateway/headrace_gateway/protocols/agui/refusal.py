"""Why a run is refused before its stream starts: a status and ``{"error":{"code","message"}}``."""

from http import HTTPStatus
from typing import ClassVar, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from headrace.model.errors import HeadraceError
from headrace_gateway.problems import headers, problem_of
from headrace_gateway.server.endpoint import Endpoint, telling
from headrace_gateway.server.json_response import json_response


class RunRefused(HeadraceError):
    """The request can't become a run."""

    status: ClassVar[HTTPStatus]


class InputInvalid(RunRefused):
    """The body is no RunAgentInput; the message names the field and the rule that it breaks."""

    code = "invalid_input"
    status = HTTPStatus.BAD_REQUEST


class BodyNotJson(RunRefused):
    """The body is sent as something else than JSON."""

    code = "unsupported_media_type"
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class NotAcceptable(RunRefused):
    """The client accepts nothing that a run can be streamed as."""

    code = "not_acceptable"
    status = HTTPStatus.NOT_ACCEPTABLE


class ResumeMismatch(RunRefused):
    """The run resumes what does not wait for it, or only a part of what does."""

    code = "resume_mismatch"
    status = HTTPStatus.CONFLICT


class ThreadBusy(RunRefused):
    """The agent is at work in the thread and takes no other run meanwhile."""

    code = "thread_busy"
    status = HTTPStatus.CONFLICT


class RunUnknown(RunRefused):
    """The caller has no such thread, or the thread no such run (any more)."""

    code = "run_unknown"
    status = HTTPStatus.NOT_FOUND


class Told(NamedTuple):
    """What a client is told of a failure."""

    status: int
    code: str
    message: str
    headers: dict[str, str]


def told(error: Exception) -> Told:
    """Return what a client is told of `error`."""
    if isinstance(error, RunRefused):
        return Told(error.status, error.code, str(error), {})
    problem = problem_of(error)
    code = error.code if isinstance(error, HeadraceError) else problem.reason.lower()
    return Told(problem.http_status, code, problem.message, headers(problem))


def answering_refusals(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint` with everything that it raises told to the client."""
    return telling(endpoint, _refusal)


def _refusal(_: Request, error: Exception) -> Response:
    status, code, message, more = told(error)
    return json_response({"error": {"code": code, "message": message}}, status, more)
