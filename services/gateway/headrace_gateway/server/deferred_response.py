"""Deferred responses: the part of a request that is served after routing and middleware returned.

A stream may be open for hours. Without deferral, all callers would stay on the stack for that time:
a dozen frames, the request that they hold, and several wrappers around every write.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.server.open_requests import EXTENSION, OpenRequests

_EXTENSION = "headrace.deferred"

type Rest = Callable[[Receive, Send], Awaitable[None]]


class DeferredResponse:
    """The deferred part of one request."""

    __slots__ = ("rest", "steps")

    def __init__(self) -> None:
        """Defer nothing yet."""
        self.rest: Rest | None = None
        """Served after the application has returned."""
        self.steps: list[Callable[[], None]] = []
        """Called when the whole request has been served, or has failed."""

    def defer(self, rest: Rest) -> None:
        """Serve `rest` after the application has returned."""
        self.rest = rest

    def at_end(self, step: Callable[[], None]) -> None:
        """Call `step` when the whole request has been served, or has failed."""
        self.steps.append(step)


def deferred_of(scope: Scope) -> DeferredResponse | None:
    """Return the request's `DeferredResponse`, or None if it has none."""
    found: DeferredResponse | None = scope.get("extensions", {}).get(_EXTENSION)
    return found


class DeferringApp:
    """An ASGI application that serves another one's requests, and what they deferred."""

    def __init__(self, requests: OpenRequests, app: ASGIApp) -> None:
        """Pass requests to `app`, and count them in `requests`."""
        self._requests, self._app = requests, app

    def switch_to(self, app: ASGIApp) -> None:
        """Pass all requests to `app` from now on."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with the current application, then serve what it deferred."""
        deferred = DeferredResponse()
        try:
            # A copy, so that additions by routes and middleware are freed before the deferred part.
            extensions = {
                **scope.get("extensions", {}),
                EXTENSION: self._requests,
                _EXTENSION: deferred,
            }
            await self._app({**scope, "extensions": extensions}, receive, send)
            del extensions
            if (rest := deferred.rest) is not None:
                await rest(receive, send)
        finally:
            for step in deferred.steps:
                step()
