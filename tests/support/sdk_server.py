"""The official SDK's in-process server with a test's executor, over all its bindings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc.aio
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentProvider, AgentSkill
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.cutting_proxy import CuttingProxy
from tests.support.servers import ports


@dataclass
class SdkServer:
    """What a test knows of it."""

    url: str
    proxy: CuttingProxy
    """All of HTTP comes through it."""
    by_grpc: CuttingProxy
    """All of gRPC comes through it."""
    headers: dict[str, str] = field(default_factory=dict)
    """What each request must carry; the card is public."""
    requests: int = 0
    refused: int = 0
    """Requests without."""
    issued: list[dict[str, str]] = field(default_factory=list)
    """Forms that tokens were asked for with; the n-th token is ``token-n``."""
    redirect: tuple[int, str] | None = None
    """Status and base URL that every request but the card's is redirected with."""


@asynccontextmanager
async def sdk_server(
    executor: AgentExecutor,
    *,
    streaming: bool = True,
    bindings: Sequence[str] = ("JSONRPC", "HTTP+JSON", "GRPC"),
    shape_card: Callable[[AgentCard], None] = lambda _: None,
) -> AsyncIterator[SdkServer]:
    """Serve `executor` for the length of a block, with its card as `shape_card` leaves it."""
    port, grpc_port = ports.pick(), ports.pick()
    async with CuttingProxy(port) as proxy, CuttingProxy(grpc_port) as by_grpc:
        served = SdkServer(proxy.url, proxy, by_grpc)
        card = _card(served, bindings, streaming=streaming)
        shape_card(card)
        async with _serving(executor, card, served, port, grpc_port):
            yield served


def _card(served: SdkServer, bindings: Sequence[str], *, streaming: bool) -> AgentCard:
    urls = {
        "JSONRPC": f"{served.url}/rpc",
        "HTTP+JSON": served.url,
        "GRPC": served.by_grpc.url.removeprefix("http://"),
    }
    return AgentCard(
        name="Scripted Executor",
        description="Replies.",
        version="7",
        icon_url="https://vendor.example/icon.png",
        documentation_url="javascript:alert(1)",
        provider=AgentProvider(organization="Vendor", url="https://vendor.example"),
        default_input_modes=["text/plain"],
        default_output_modes=["text/markdown"],
        capabilities=AgentCapabilities(streaming=streaming),
        skills=[AgentSkill(id="reply", name="Reply", description="Repeats it.", tags=["text"])],
        supported_interfaces=[
            AgentInterface(url=urls[each], protocol_binding=each, protocol_version="1.0")
            for each in bindings
        ],
    )


@asynccontextmanager
async def _serving(
    executor: AgentExecutor, card: AgentCard, served: SdkServer, port: int, grpc_port: int
) -> AsyncIterator[None]:
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    routes = [
        *create_agent_card_routes(card),
        Route("/token", _issue(served), methods=["POST"]),
        *create_jsonrpc_routes(handler, "/rpc"),
        *create_rest_routes(handler),
    ]
    config = uvicorn.Config(
        _Guarded(Starlette(routes=routes), served), port=port, log_level="error", lifespan="off"
    )
    server, by_grpc = uvicorn.Server(config), grpc.aio.server()
    add_A2AServiceServicer_to_server(GrpcHandler(handler), by_grpc)  # type: ignore[no-untyped-call]  # generated
    by_grpc.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await by_grpc.start()
    # Without its handlers of signals, which are this process's own.
    serving = asyncio.create_task(server._serve())
    try:
        while not server.started:  # noqa: ASYNC110  # uvicorn tells nobody
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = server.force_exit = True
        await serving
        await by_grpc.stop(None)


class _Guarded:
    """Lets in who has the headers."""

    def __init__(self, app: ASGIApp, served: SdkServer) -> None:
        self._app, self._served = app, served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = {name.decode(): value.decode() for name, value in scope["headers"]}
        self._served.requests += 1
        is_card = scope["path"].startswith("/.well-known")
        if self._served.redirect is not None and not is_card:
            status, base = self._served.redirect
            where = {"Location": f"{base}{scope['path']}"}
            await Response(status_code=status, headers=where)(scope, receive, send)
            return
        is_public = is_card or scope["path"] == "/token"
        if not is_public and not self._served.headers.items() <= given.items():
            self._served.refused += 1
            await Response(status_code=401)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _issue(served: SdkServer):  # type: ignore[no-untyped-def]  # noqa: ANN202  # an endpoint
    async def issue(request: Request) -> Response:
        body = (await request.body()).decode()
        requests = dict(pair.partition("=")[::2] for pair in body.split("&"))
        served.issued.append({**requests, "auth": request.headers.get("authorization", "")})
        token = f"token-{len(served.issued)}"
        return JSONResponse({"access_token": token, "expires_in": 3600})

    return issue
