"""Routes that skip requests by their path's ends match what Starlette's match."""

from typing import Any

import pytest
from starlette import routing
from starlette.routing import Match
from starlette.types import Scope

from headrace_gateway.app import routes_of
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.server.route import Route
from headrace_gateway.settings import GatewaySettings
from tests.support.memory_gateway import memory_services

PATHS = (
    "/",
    "/tasks",
    "/tasks/",
    "/tasks/{id}",
    "/tasks/{id}:cancel",
    "/agents/{agent}/files/{path:path}",
    "/agents/{agent}/message:stream",
)

REQUESTS = (
    *("/", "/tasks", "/tasks/", "/tasks/1", "/tasks/1:cancel", "/tasks/:cancel", "/tasks/1/2"),
    *("/agents/echo/files/a/b", "/agents/echo/files/", "/agents/echo", "/agents//message:stream"),
    *("/agents/echo/message:stream", "/agents/message:stream", "", "/other"),
)


async def endpoint(*_: object) -> Any:  # noqa: ANN401 - ASGI's
    raise AssertionError("nothing is requested")


def found(route: routing.Route, scope: Scope) -> tuple[Match, Scope]:
    return route.matches(dict(scope))


@pytest.mark.parametrize("root", ["", "/mounted"])
@pytest.mark.parametrize("path", PATHS)
def test_it_matches_what_starlettes_route_matches(path: str, root: str) -> None:
    matched = 0
    for requested in REQUESTS:
        for method in ("GET", "POST"):
            scope = {"type": "http", "method": method, "path": root + requested, "root_path": root}
            usual = found(routing.Route(path, endpoint, methods=["POST"]), scope)
            assert found(Route(path, endpoint, methods=["POST"]), scope) == usual
            matched += usual[0] is Match.FULL
    assert matched, "no request of these has the path"


def test_it_builds_the_path_of_a_url() -> None:
    assert Route("/tasks/{id}", endpoint).url_path_for("endpoint", id="1") == "/tasks/1"


async def test_a_gateways_first_request_compiles_few_patterns() -> None:
    async with memory_services(OpenRequests(), GatewaySettings()) as services:
        served = routes_of(services, PROTOCOLS)
        routes = [route for route in served if isinstance(route, Route)]
        assert len(routes) > 100
        scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
        found_routes = [route.path for route in routes if route.matches(scope)[0] is Match.FULL]
    assert found_routes[0] == "/healthz"
    compiled = [route.path for route in routes if route.path_regex.pattern != "^/$"]
    assert len(compiled) < len(routes) / 4
