"""What outlasts routing and middleware: the rest of a request, served when they have returned.

A stream may be open for hours. What led to it would stay on the stack as long: a dozen frames, the
request that they hold, and a few wrappers around every write.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

_EXTENSION = "headrace.lasting"

type Rest = Callable[[Receive, Send], Awaitable[None]]


class Lasting:
    """One request's rest."""

    __slots__ = ("_rest", "_steps")

    def __init__(self) -> None:
        """Have none yet."""
        self._rest: Rest | None = None
        self._steps: list[Callable[[], None]] = []

    def leave(self, rest: Rest) -> None:
        """Serve `rest` as soon as the caller has returned."""
        self._rest = rest

    def at_end(self, step: Callable[[], None]) -> None:
        """Call `step` when all of the request has been served, or can't be."""
        self._steps.append(step)

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Have `app` serve the request, and then what it leaves."""
        try:
            # A copy: what routes and middleware add to it goes with them.
            extensions = scope.get("extensions", {}) | {_EXTENSION: self}
            await app({**scope, "extensions": extensions}, receive, send)
            if (rest := self._rest) is not None:
                await rest(receive, send)
        finally:
            for step in self._steps:
                step()


def lasting_of(scope: Scope) -> Lasting | None:
    """Return where a request's rest may be left; None: its stack is all there is."""
    found: Lasting | None = scope.get("extensions", {}).get(_EXTENSION)
    return found
