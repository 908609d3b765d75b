"""Deferred responses: the part of a request that is served after routing and middleware returned.

A stream may be open for hours. Without this, everything that led to it would stay on the stack as
long: a dozen frames, the request that they hold, and a few wrappers around every write.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

_EXTENSION = "headrace.deferred"

type Rest = Callable[[Receive, Send], Awaitable[None]]


class DeferredResponse:
    """The deferred part of one request."""

    __slots__ = ("_rest", "_steps")

    def __init__(self) -> None:
        """Defer nothing yet."""
        self._rest: Rest | None = None
        self._steps: list[Callable[[], None]] = []

    def defer(self, rest: Rest) -> None:
        """Serve `rest` as soon as the caller has returned."""
        self._rest = rest

    def at_end(self, step: Callable[[], None]) -> None:
        """Call `step` when the whole request has been served, or has failed."""
        self._steps.append(step)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let `app` serve the request, then serve what it deferred."""
        try:
            # A copy: what routes and middleware add to it goes with them.
            extensions = scope.get("extensions", {}) | {_EXTENSION: self}
            await app({**scope, "extensions": extensions}, receive, send)
            if (rest := self._rest) is not None:
                await rest(receive, send)
        finally:
            for step in self._steps:
                step()


def deferred_of(scope: Scope) -> DeferredResponse | None:
    """Return where a part of the request can be deferred; None: nowhere."""
    found: DeferredResponse | None = scope.get("extensions", {}).get(_EXTENSION)
    return found
