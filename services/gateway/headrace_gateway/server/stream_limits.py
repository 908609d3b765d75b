"""Limits on open streams, in total and per owner, checked before a stream is opened."""

from collections import Counter
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.deferred_response import deferred_of


class StreamPermit:
    """The permit of one open stream."""

    __slots__ = ("_held", "_limits", "_owner")

    def __init__(self, limits: "StreamLimits", owner: tuple[str, str]) -> None:
        """Hold a permit that `limits` has counted for `owner`."""
        self._limits, self._owner = limits, owner
        self._held = True

    def release(self) -> None:
        """Release the permit; a second call does nothing."""
        if self._held:
            self._held = False
            self._limits.release(self._owner)


class StreamLimits:
    """Counts open streams."""

    def __init__(self, most: int, most_per_owner: int, what: str = "streams") -> None:
        """Allow `most` streams in total, and `most_per_owner` per owner; -1 is unlimited.

        Refusals call them `what`.
        """
        self._most, self._most_per_owner, self._what = most, most_per_owner, what
        self._taken = Counter[tuple[str, str]]()
        """By tenant and owner."""
        self._count = 0

    def __len__(self) -> int:
        """Return the number of open streams."""
        return self._count

    def acquire(self, caller: Caller) -> StreamPermit:
        """Return a permit for one more stream of the caller.

        Raises:
            TooManyStreams: the gateway has reached its limit.
            TooManyStreamsOfOwner: the caller has reached its limit.
        """
        if 0 <= self._most <= self._count:
            raise TooManyStreams(
                f"this gateway has {self._most} open {self._what}, its limit; try another gateway"
            )
        owner = caller.tenant, caller.owner
        if 0 <= self._most_per_owner <= self._taken[owner]:
            raise TooManyStreamsOfOwner(
                f"you have {self._most_per_owner} open {self._what} on this gateway, the limit"
            )
        self._taken[owner] += 1
        self._count += 1
        return StreamPermit(self, owner)

    def release(self, owner: tuple[str, str]) -> None:
        """Count one stream less for the tenant and owner."""
        self._count -= 1
        self._taken[owner] -= 1
        if not self._taken[owner]:
            del self._taken[owner]

    async def with_permit(
        self, caller: Caller, opening: Callable[[], Awaitable[ASGIApp]]
    ) -> ASGIApp:
        """Return the response of `opening`, which holds a permit until it has been served.

        Raises:
            TooManyStreams, TooManyStreamsOfOwner: as `acquire`; nothing is opened.
        """
        permit = self.acquire(caller)
        try:
            response = await opening()
        except BaseException:
            permit.release()
            raise

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            deferred = deferred_of(scope)
            if deferred is not None:
                deferred.at_end(permit.release)
                await response(scope, receive, send)
                return
            try:
                await response(scope, receive, send)
            finally:
                permit.release()

        return serve
