"""Direct routes: the requests that are sent most are passed to their endpoints by one look-up.

Starlette tries its routes in turn, each by a regular expression, within handlers of errors that
endpoints answer themselves.
"""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.server.request import EndpointApp

_PARAMETER = "{agent}"


class DirectRoutes:
    """Middleware that serves routes of endpoints whose paths vary in the agent's name at most."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], agents: str) -> None:
        """Serve those of `routes`, and pass everything else to `app`.

        `agents` is the path of an agent, which ends with its parameter ``{agent}``.
        """
        self._app, self._agent = app, agents
        self._agents = agents.removesuffix(_PARAMETER)
        self.apps = {
            (method, route.path): route.app
            for route in reversed(routes)  # The first of several with one path is used.
            if isinstance(route, Route) and isinstance(route.endpoint, EndpointApp)
            if "{" not in route.path.removeprefix(agents)
            for method in route.methods or ()
        }
        """By method and path, in which ``{agent}`` stands for the agent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = self._app
        # Another application that mounts this one has its path before ours.
        if scope["type"] == "http" and not scope.get("root_path"):
            path, agent = scope["path"], ""
            if path.startswith(self._agents):
                agent, slash, rest = path[len(self._agents) :].partition("/")
                path = f"{self._agent}{slash}{rest}" if agent else path
            if (found := self.apps.get((scope["method"], path))) is not None:
                scope["path_params"] = {"agent": agent} if agent else {}
                app = found
        await app(scope, receive, send)
