"""Responses that take long: a stream may be open for hours, and other requests wait for an answer.

What they serve is deferred until routing and middleware have returned. Otherwise all callers would
stay on the stack for that time: a dozen frames, the request that they hold, and several wrappers
around every write.

The HTTP server reports by a call that their client has disconnected. Under ASGI alone that is known
only by receiving, for which every waiting request would need an asyncio task: 2 KB and about 20 µs
each.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

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


DISCONNECTS = "headrace.disconnects"
"""Key in the scopes of a connection's requests: its `ConnectionDisconnects`."""

type Leave = Callable[[], None]
"""Called at most once, when the client has disconnected."""

type Stop = Callable[[], None]
"""Ends the wait for a disconnect."""


class Disconnects(Protocol):
    """Reports when the client of one request disconnects."""

    def watch(self, leave: Leave) -> Stop:
        """Call `leave` when the client has disconnected, until the returned function is called."""


class ConnectionDisconnects:
    """Reports the end of one connection, for all of its requests."""

    __slots__ = ("_is_over", "_resume", "_waiting")

    def __init__(self, resume: Callable[[], None]) -> None:
        """Wait for `end`; `resume` makes the connection read, without which it can't notice one."""
        self._resume = resume
        self._waiting: list[Leave] = []
        self._is_over = False

    def watch(self, leave: Leave) -> Stop:
        """See `Disconnects`."""
        if self._is_over:
            leave()
            return _nothing
        self._resume()
        self._waiting.append(leave)
        return partial(self._stop, leave)

    def end(self) -> None:
        """Report that the connection has ended."""
        self._is_over = True
        waiting, self._waiting = self._waiting, []
        for leave in waiting:
            leave()

    def _stop(self, leave: Leave) -> None:
        if leave in self._waiting:
            self._waiting.remove(leave)


class ReceivedDisconnects:
    """Receives, in an asyncio task, until the client has disconnected."""

    __slots__ = ("_receive",)

    def __init__(self, receive: Receive) -> None:
        """Receive with `receive`; the request's body must have been received."""
        self._receive = receive

    def watch(self, leave: Leave) -> Stop:
        """See `Disconnects`."""
        watching = asyncio.create_task(self._wait(leave))
        return partial(_cancel, watching)

    async def _wait(self, leave: Leave) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        leave()


class _Never:
    """Reports nothing."""

    __slots__ = ()

    def watch(self, leave: Leave) -> Stop:  # noqa: ARG002 - it is never called
        """See `Disconnects`."""
        return _nothing


NEVER: Disconnects = _Never()
"""For requests that are cancelled when their client disconnects."""


def disconnects_of(scope: Scope, receive: Receive) -> Disconnects:
    """Return what reports that the client of the request of `scope` has disconnected."""
    found: Disconnects | None = scope.get("extensions", {}).get(DISCONNECTS)
    return ReceivedDisconnects(receive) if found is None else found


def _cancel(watching: asyncio.Task[None]) -> None:
    watching.cancel()


def _nothing() -> None:
    """End nothing."""
