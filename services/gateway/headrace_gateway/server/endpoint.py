"""Endpoints of routes, with error handling."""

from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp

from headrace_gateway.server.open_requests import requests_of

type Endpoint = Callable[[Request], Awaitable[ASGIApp]]

_CLIENT_WENT_AWAY = 499


def answering(endpoint: Endpoint, failed: Callable[[Request, Exception], Response]) -> Endpoint:
    """Return `endpoint` with a response by `failed` for every exception."""

    async def answer(request: Request) -> ASGIApp:
        try:
            async with requests_of(request.scope).one():
                return await endpoint(request)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_WENT_AWAY)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            return failed(request, error)

    return answer
