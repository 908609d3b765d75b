"""Endpoints of the most frequent requests, without what Starlette would spend on each.

Starlette tries its routes in turn, each by a regular expression, and wraps an endpoint in handlers
of errors that the endpoint answers itself. A submission looks up about 30 headers and query
parameters, most of which it does not have; Starlette searches its list for each, and raises and
catches an exception for each missing one.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload, override

from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.lazy import Lazy
from headrace.links import SERVED
from headrace_gateway.server.forwarded import PREFIX
from headrace_gateway.server.open_requests import OTHER_PROTOCOL, PROTOCOL, Endpoint


class IndexedHeaders(Headers):
    """Headers that are indexed by name."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        """Index `raw`, an ASGI scope's headers, whose names are in lower case."""
        super().__init__(raw=raw)
        # Reversed, because the first of several headers with one name counts.
        self.first = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(raw)
        }
        """The first value of each header by its name in lower case, which takes no call to read."""
        self.are_single = len(self.first) == len(raw)
        """Whether no header is repeated."""

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get[Default](self, key: str, default: Default, /) -> str | Default: ...
    @override
    def get(self, key: str, default: object = None, /) -> object:
        return self.first.get(key.lower(), default)

    @override
    def __getitem__(self, key: str) -> str:
        return self.first[key.lower()]

    @override
    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self.first

    @override
    def getlist(self, key: str) -> list[str]:
        return super().getlist(key) if key in self else []


_INDEXED = "headrace.headers"
"""Key in a request's scope: its headers, once indexed."""


def headers_of(scope: Scope) -> IndexedHeaders:
    """Return the headers of a request or WebSocket, which are indexed once."""
    found: IndexedHeaders | None = scope.get(_INDEXED)
    if found is None:
        found = scope[_INDEXED] = IndexedHeaders(scope["headers"])
    return found


class _NoParameters(QueryParams):
    """The parameters of an empty query."""

    @overload
    def get(self, key: str, /) -> str | None: ...
    @overload
    def get[Default](self, key: str, default: Default, /) -> str | Default: ...
    @override
    def get(self, key: str, default: object = None, /) -> object:
        return default

    @override
    def getlist(self, key: Any) -> list[str]:
        return []

    @override
    def __contains__(self, key: object) -> bool:
        return False


_NONE = _NoParameters()


class IndexedRequest(Request):
    """A request with indexed headers."""

    # Slots, because in place of Starlette's properties they are read without a call.
    __slots__ = ("headers", "query_params")
    headers: Headers
    query_params: QueryParams

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request of `scope`."""
        super().__init__(scope, receive, send)
        self.headers = headers_of(scope)
        self.query_params = QueryParams(query) if (query := scope.get("query_string")) else _NONE


class EndpointApp:
    """An endpoint as an ASGI application; the endpoint answers its errors itself.

    Starlette would wrap a function in four others, for error handlers that it does not need.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Pass requests to `endpoint`."""
        self._endpoint = endpoint
        self.protocol = OTHER_PROTOCOL
        """The name of the protocol that its route belongs to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        scope[PROTOCOL] = self.protocol
        response = await self._endpoint(IndexedRequest(scope, receive, send))
        await response(scope, receive, send)


_OF_ADDRESS = ("type", "scheme", "root_path", PREFIX)
"""Members of a scope that tell where it was sent, besides the header Host."""

_AGENT_PARAMETER = "{agent}"
_TASKS, _TASK_PARAMETER = "/tasks/", "{id}"


class DirectRoutes:
    """Serves routes of endpoints whose paths vary in the agent's name and a task's id at most."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], agents: str) -> None:
        """Serve those of `routes`, and pass everything else to `app`.

        They are outside of `app` and its middleware, because their endpoints answer all errors.
        `agents` is the path of an agent, which ends with its parameter ``{agent}``.
        """
        self._app, self._agent = app, agents
        self._agents = agents.removesuffix(_AGENT_PARAMETER)
        self.apps = {
            (method, route.path): route.app
            for route in reversed(routes)  # The first of several with one path is used.
            if isinstance(route, Route) and isinstance(route.endpoint, EndpointApp)
            if "{" not in route.path.removeprefix(agents).replace(_TASKS + _TASK_PARAMETER, "")
            for method in route.methods or ()
        }
        """By method and path, in which ``{agent}`` is the agent and ``{id}`` the task."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = self._app
        if scope["type"] != "lifespan":
            # The other members are freed once a stream has begun.
            members = {name: scope[name] for name in _OF_ADDRESS if name in scope}
            members["headers"] = [one for one in scope["headers"] if one[0] == b"host"]
            SERVED.set(members)
        # Another application that mounts this one has its path before ours.
        if scope["type"] == "http" and not scope.get("root_path"):
            path, params = scope["path"], dict[str, str]()
            if path.startswith(self._agents):
                agent, slash, rest = path[len(self._agents) :].partition("/")
                if agent:
                    params["agent"], path = agent, f"{self._agent}{slash}{rest}"
            before, tasks, after = path.partition(_TASKS)
            if tasks:
                task, colon, verb = after.partition(":")
                # The path of something in the task does not become its own.
                if task and "/" not in task:
                    params["id"], path = task, f"{before}{tasks}{_TASK_PARAMETER}{colon}{verb}"
            if (found := self.apps.get((scope["method"], path))) is not None:
                scope["path_params"], app = params, found
        await app(scope, receive, send)


def on_demand[Door](door: Lazy[Door], page: Callable[[Door], Endpoint]) -> Endpoint:
    """Return a `page` of `door`, whose modules are imported with the first request for one."""

    async def endpoint(request: Request) -> ASGIApp:
        return await page(await door.ready())(request)

    return endpoint
