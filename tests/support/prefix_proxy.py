"""A reverse proxy that serves a gateway below a path, as an ingress does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support.plain_http import NO_TLS
from tests.support.servers import ports

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
    replaced: dict[bytes, bytes] = field(default_factory=dict)
    """What the gateway's pages say, and what they say behind the proxy."""


@asynccontextmanager
async def prefixed(gateway: str, prefix: str) -> AsyncIterator[PrefixProxy]:
    """Serve `gateway` below `prefix` for the length of a block."""
    port = ports.pick()
    proxy = PrefixProxy(f"http://127.0.0.1:{port}{prefix}")
    # A stream may say nothing for a while.
    async with httpx.AsyncClient(base_url=gateway, timeout=_TIMEOUT, verify=NO_TLS) as http:

        async def passed_on(request: Request) -> Response:
            return await _answer(proxy, http, request)

        app = Starlette(routes=[Route(f"{prefix}/{{path:path}}", passed_on, methods=_METHODS)])
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
        # Without its handlers of signals, which are this process's own.
        serving = asyncio.create_task(server._serve())
        try:
            while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody
                await asyncio.sleep(0.01)
            yield proxy
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def _answer(proxy: PrefixProxy, http: httpx.AsyncClient, request: Request) -> Response:
    path = f"/{request.path_params['path']}?{request.url.query}".rstrip("?")
    # Without a condition, because a page with something replaced is another one.
    asked = {name: text for name, text in request.headers.items() if name != "if-none-match"}
    asked["accept-encoding"] = "identity"
    sent = http.build_request(request.method, path, headers=asked, content=await request.body())
    answer = await http.send(sent, stream=True)
    headers = {name: text for name, text in answer.headers.items() if name not in _LEFT_OUT}
    if "text/html" not in headers.get("content-type", ""):
        return StreamingResponse(_body(answer), answer.status_code, headers)
    page = await answer.aread()
    for said, instead in proxy.replaced.items():
        page = page.replace(said, instead)
    return Response(page, answer.status_code, headers)


async def _body(answer: httpx.Response) -> AsyncIterator[bytes]:
    async with aclosing(answer):
        async for chunk in answer.aiter_raw():
            yield chunk
