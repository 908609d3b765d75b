"""Failures as CopilotKit's client reads them: AG-UI's own shape, and the words once more above."""

from starlette.requests import Request
from starlette.responses import Response

from headrace_gateway.protocols.agui.refusal import told
from headrace_gateway.server.endpoint import Endpoint, telling
from headrace_gateway.server.json_response import json_response


def answering_failures(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint` with everything that it raises told to the client."""
    return telling(endpoint, _failure)


def _failure(_: Request, error: Exception) -> Response:
    status, code, message, more = told(error)
    content = {"error": {"code": code, "message": message}, "message": message}
    return json_response(content, status, more)
