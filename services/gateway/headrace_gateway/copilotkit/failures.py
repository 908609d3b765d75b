"""Failures as CopilotKit's client reads them: AG-UI's own shape, and the words once more above."""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace_gateway.agui.refusal import Endpoint, told
from headrace_gateway.json_response import json_response

_CLIENT_WENT_AWAY = 499


def answering_failures(endpoint: Endpoint) -> Endpoint:
    """Return `endpoint` with everything that it raises told to the client."""

    async def answer(request: Request) -> ASGIApp:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_WENT_AWAY)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets a reason
            status, code, message, more = told(error)
            content = {"error": {"code": code, "message": message}, "message": message}
            return json_response(content, status, more)

    return answer
