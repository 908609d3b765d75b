"""How many streams a gateway has open: bounded in all and per owner, checked before one begins."""

from collections import Counter
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.refusals import TooManyStreams, TooManyStreamsOfOwner
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.deferred_response import deferred_of


class Seat:
    """One stream's place, to be given back once."""

    __slots__ = ("_caller", "_held", "_seats")

    def __init__(self, seats: "Seats", caller: Caller) -> None:
        """Hold a place that `seats` has counted."""
        self._seats, self._caller = seats, caller
        self._held = True

    def release(self) -> None:
        """Give the place back; what is given back already stays so."""
        if self._held:
            self._held = False
            self._seats.leave(self._caller)


class Seats:
    """Counts open streams."""

    def __init__(self, most: int, most_per_owner: int) -> None:
        """Have `most` places, of which one owner gets `most_per_owner`; -1: no limit."""
        self._most, self._most_per_owner = most, most_per_owner
        self._taken = Counter[Caller]()
        self._count = 0

    def __len__(self) -> int:
        """Return how many places are taken."""
        return self._count

    def take(self, caller: Caller) -> Seat:
        """Return a place for one more stream of the caller's.

        Raises:
            TooManyStreams: the gateway has as many as it takes.
            TooManyStreamsOfOwner: the caller has.
        """
        if 0 <= self._most <= self._count:
            raise TooManyStreams(f"this gateway has {self._most} streams open; try another")
        if 0 <= self._most_per_owner <= self._taken[caller]:
            raise TooManyStreamsOfOwner(f"you have {self._most_per_owner} streams open here")
        self._taken[caller] += 1
        self._count += 1
        return Seat(self, caller)

    def leave(self, caller: Caller) -> None:
        """Count one stream of the caller's less."""
        self._count -= 1
        self._taken[caller] -= 1
        if not self._taken[caller]:
            del self._taken[caller]

    async def seated(self, caller: Caller, opening: Callable[[], Awaitable[ASGIApp]]) -> ASGIApp:
        """Return the response that `opening` makes, which has a place until it has been served.

        Raises:
            TooManyStreams, TooManyStreamsOfOwner: as `take`; then nothing is opened.
        """
        seat = self.take(caller)
        try:
            response = await opening()
        except BaseException:
            seat.release()
            raise

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            deferred = deferred_of(scope)
            if deferred is not None:
                deferred.at_end(seat.release)
                await response(scope, receive, send)
                return
            try:
                await response(scope, receive, send)
            finally:
                seat.release()

        return serve
