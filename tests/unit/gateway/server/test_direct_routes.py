"""Requests that go to their endpoints directly reach the same ones as through Starlette."""

from typing import Any

from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from headrace_gateway.app import routes_of
from headrace_gateway.call import AGENT
from headrace_gateway.protocol_table import PROTOCOLS
from headrace_gateway.server.endpoints import DirectRoutes, EndpointApp
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from tests.support.memory_gateway import memory_services


def scope_of(method: str, path: str, **more: str) -> Scope:
    return {"type": "http", "method": method, "path": path, "headers": [], **more}


async def test_every_direct_route_is_the_one_that_starlette_finds() -> None:
    async with memory_services(OpenRequests(), GatewaySettings()) as services:
        routes = routes_of(services, PROTOCOLS)
        direct = DirectRoutes(nothing, routes, AGENT).apps
    found = {}
    for method, path in direct:
        scope = scope_of(method, path.replace("{agent}", "echo").replace("{id}", "t"))
        matches = ((route, *route.matches(scope)) for route in routes)
        route, _, child = next(one for one in matches if one[1] is Match.FULL)
        assert isinstance(route, Route)
        found[method, path] = route.app
        expected = {"agent": "echo", "id": "t"}
        assert child["path_params"] == {k: v for k, v in expected.items() if f"{{{k}}}" in path}
    assert found == direct
    assert ("POST", AGENT) in direct
    assert ("POST", f"{AGENT}/message:stream") in direct
    assert ("POST", f"{AGENT}/ag-ui") in direct
    assert ("GET", f"{AGENT}/tasks/{{id}}") in direct
    assert ("POST", "/tasks/{id}:cancel") in direct


class Served:
    """Remembers how requests arrive: through an endpoint, or through what is behind the routes."""

    def __init__(self) -> None:
        self.by: list[tuple[str, Any]] = []

    async def endpoint(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        self.by.append(("direct", scope["path_params"]))

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's
        self.by.append(("starlette", scope.get("path_params")))


THROUGH = ("starlette", None)


async def nothing(*_: object) -> Any:  # noqa: ANN401 - ASGI's
    raise AssertionError("nothing is sent or received")


async def served(scope: Scope) -> tuple[str, Any]:
    """Return how a request arrives."""
    serves = Served()
    paths = ("/", AGENT, "/a", "/tasks/{id}", f"{AGENT}/tasks/{{id}}:cancel")
    routes = [Route(path, EndpointApp(nothing), methods=["POST"]) for path in paths]
    for route in routes:
        route.app = serves.endpoint
    other = Route("/b/{task}", EndpointApp(nothing), methods=["POST"])
    await DirectRoutes(serves.rest, [*routes, other], AGENT)(scope, nothing, nothing)
    [by] = serves.by
    return by


async def test_a_request_for_an_agent_goes_to_its_endpoint() -> None:
    assert await served(scope_of("POST", "/v1/agents/echo")) == ("direct", {"agent": "echo"})
    assert await served(scope_of("POST", "/")) == ("direct", {})
    assert await served(scope_of("POST", "/a")) == ("direct", {})


async def test_a_request_for_a_task_goes_to_its_endpoint() -> None:
    assert await served(scope_of("POST", "/tasks/{id}")) == ("direct", {"id": "{id}"})
    of_agent = scope_of("POST", "/v1/agents/echo/tasks/1:cancel")
    assert await served(of_agent) == ("direct", {"agent": "echo", "id": "1"})
    assert await served(scope_of("POST", "/v1/agents/echo/tasks/1/2:cancel")) == THROUGH
    assert await served(scope_of("POST", "/v1/agents/echo/tasks/1:2:cancel")) == THROUGH
    assert await served(scope_of("POST", "/tasks/")) == THROUGH
    assert await served(scope_of("POST", "/tasks/1/more")) == THROUGH


async def test_every_other_request_goes_through_starlette() -> None:
    assert await served(scope_of("GET", "/")) == THROUGH
    assert await served(scope_of("POST", "/v1/agents/")) == THROUGH
    assert await served(scope_of("POST", "/v1/agents/echo/")) == THROUGH
    assert await served(scope_of("POST", "/v1/agents/echo/more")) == THROUGH
    assert await served(scope_of("POST", "/b/1")) == THROUGH
    assert await served(scope_of("POST", "/v1/agents/{agent}")) == ("direct", {"agent": "{agent}"})
    assert await served({"type": "websocket", "path": "/", "headers": []}) == THROUGH


async def test_a_mounted_gateway_leaves_routes_to_starlette() -> None:
    assert await served(scope_of("POST", "/", root_path="/agents")) == THROUGH
