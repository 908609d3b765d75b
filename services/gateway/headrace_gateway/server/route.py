"""A gateway's route, whose pattern is compiled for the first request that it may match.

A gateway has more than 150 routes. To compile all of their patterns took a third of what it does
between its imports and its first request, and a request of one path may match few of them.
"""

from collections.abc import Callable, Sequence
from typing import Any, override

from starlette import routing
from starlette.datastructures import URLPath
from starlette.routing import Match
from starlette.types import Scope

_ANY = "/"
"""A path that Starlette compiles once for all routes."""


class Route(routing.Route):
    """Starlette's route, which skips requests whose path begins or ends differently."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, methods: Sequence[str] | None = None
    ) -> None:
        """Serve requests with these `methods` for `path` by `endpoint`."""
        super().__init__(_ANY, endpoint, methods=methods)
        self.path = path
        self._begins, self._ends = path.partition("{")[0], path.rpartition("}")[2]
        self._is_compiled = False

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # Another application that mounts this one has its path before ours.
        path = "" if scope.get("root_path") else scope["path"]
        if path and not (path.startswith(self._begins) and path.endswith(self._ends)):
            return Match.NONE, {}
        self._compile()
        return super().matches(scope)

    @override
    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        self._compile()
        return super().url_path_for(name, **path_params)

    def _compile(self) -> None:
        if not self._is_compiled:
            compiled = routing.compile_path(self.path)
            self.path_regex, self.path_format, self.param_convertors = compiled
            self._is_compiled = True
