"""A reverse proxy that serves a gateway below a path, as an ingress does."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support.asgi_server import asgi_server
from tests.support.plain_http import NO_TLS

_METHODS = ["GET", "POST", "DELETE"]
_LEFT_OUT = frozenset(
    {"connection", "content-length", "date", "etag", "server", "transfer-encoding"}
)
_TIMEOUT = 120


@dataclass
class PrefixProxy:
    """The proxy."""

    url: str
    """The gateway's address at the proxy, with the prefix."""
    replaced: dict[bytes, bytes]
    """What the gateway's pages say, and what they say behind the proxy."""


@asynccontextmanager
async def prefixed(gateway: str, prefix: str) -> AsyncIterator[PrefixProxy]:
    """Serve `gateway` below `prefix` for the length of a block."""
    replaced: dict[bytes, bytes] = {}
    # A stream may say nothing for a while.
    async with httpx.AsyncClient(base_url=gateway, timeout=_TIMEOUT, verify=NO_TLS) as http:

        async def passed_on(request: Request) -> Response:
            return await _answer(replaced, http, request)

        app = Starlette(routes=[Route(f"{prefix}/{{path:path}}", passed_on, methods=_METHODS)])
        async with asgi_server(app) as url:
            yield PrefixProxy(f"{url}{prefix}", replaced)


async def _answer(
    replaced: dict[bytes, bytes], http: httpx.AsyncClient, request: Request
) -> Response:
    path = f"/{request.path_params['path']}?{request.url.query}".rstrip("?")
    # Without a condition, because a page with something replaced is another one.
    requests = {name: text for name, text in request.headers.items() if name != "if-none-match"}
    requests["accept-encoding"] = "identity"
    sent = http.build_request(request.method, path, headers=requests, content=await request.body())
    answer = await http.send(sent, stream=True)
    headers = {name: text for name, text in answer.headers.items() if name not in _LEFT_OUT}
    if "text/html" not in headers.get("content-type", ""):
        return StreamingResponse(_body(answer), answer.status_code, headers)
    page = await answer.aread()
    for output, instead in replaced.items():
        page = page.replace(output, instead)
    return Response(page, answer.status_code, headers)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    async with aclosing(answer):
        async for chunk in answer.aiter_raw():
            yield chunk
