"""Requests that are being carried out, and are answered before the server hangs up.

A server that stops gives what is under way a little time and then cancels it. What waits for NATS
may need longer, and a client that is only cut off learns neither why nor whether its message was
stored. So each binding carries requests out within `OpenRequests.one`, which raises in time.
"""

import asyncio
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from starlette.types import Scope

from headrace.model.errors import HeadraceError
from headrace_gateway.refusals import Restarting
from headrace_gateway.server.held_bodies import HeldBody

GRACE = 2.0
"""Seconds that answers under way have once the server stops; streams are told and end at once."""

ANSWERS = GRACE / 2
"""Seconds after which requests are given up, so that there is time left to tell their clients."""

EXTENSION = "headrace.requests"
"""Where a request's scope has the gateway's `OpenRequests`."""


class OpenRequest:
    """One request: an ``async with`` block that raises when the request is given up.

    Raises:
        Restarting: the gateway stops, and nothing of the request is stored.
        HeadraceError: it stops, and the message may be stored: what `storing` was given.
    """

    __slots__ = ("_limit", "_open", "_outer", "_replaces", "_unsettled", "held", "is_given_up")

    def __init__(self, among: set["OpenRequest"]) -> None:
        """Count as one `among` those in the block; in another one's block, instead of that one."""
        self.is_given_up = False
        self._open = among
        self._outer = _current.get()
        self._replaces = self._outer in among
        self._limit = asyncio.timeout(None)
        self._unsettled: HeadraceError | None = None
        self.held: HeldBody | None = None
        """Its body, which is released when it has been carried out."""

    async def __aenter__(self) -> Self:
        """Begin: nothing of it is stored."""
        if self._replaces and self._outer is not None:
            self._open.discard(self._outer)
        self._open.add(self)
        _current.set(self)
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self._open.discard(self)
        if self._replaces and self._outer is not None:
            self._open.add(self._outer)
        _current.set(self._outer)
        if self.held is not None:
            self.held.release()
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise self._unsettled or _restarting() from error

    def give_up(self) -> None:
        """Have whoever carries it out raise `Restarting`, or what `storing` was given."""
        if not self.is_given_up:
            self.is_given_up = True
            self._limit.reschedule(asyncio.get_running_loop().time())

    def storing(self, unsettled: HeadraceError) -> None:
        """Be told that an append of the message is about to be sent.

        From now on `unsettled` is what its client is told: the message may be in a log.

        Raises:
            Restarting: the client has been told that nothing was.
        """
        if self.is_given_up:
            raise _restarting()
        self._unsettled = unsettled

    def stored_nothing(self) -> None:
        """Be told that what was sent is in no log."""
        self._unsettled = None


_current: ContextVar[OpenRequest | None] = ContextVar("request", default=None)


def open_request() -> OpenRequest | None:
    """Return the request that the current task works for; None: for no single one."""
    return _current.get()


def hold(body: HeldBody) -> HeldBody:
    """Return `body`, to be released when the current task's request has been carried out.

    Raises:
        LookupError: there is no such request, so nobody would.
    """
    request = _current.get()
    if request is None:
        raise LookupError("a body is read within OpenRequests.one")
    request.held = body
    return body


def may_be_repeated() -> None:
    """Let the current task, detached from its request, store what is safe to be sent again."""
    _current.set(None)


class OpenRequests:
    """The requests of one gateway."""

    def __init__(self) -> None:
        """Have none yet."""
        self._open = set[OpenRequest]()
        self._is_stopping = False

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._open)

    def give_up(self) -> None:
        """Give up those that there are, and those that are still to come."""
        self._is_stopping = True
        for request in list(self._open):
            request.give_up()

    def one(self) -> OpenRequest:
        """Return a block that a request is to be carried out in.

        Raises:
            Restarting: the gateway stops.
        """
        if self._is_stopping:
            raise _restarting()
        return OpenRequest(self._open)


def _restarting() -> Restarting:
    return Restarting("the gateway is restarting and has no answer yet; try again")


def requests_of(scope: Scope) -> OpenRequests:
    """Return where a request counts as being carried out."""
    found: OpenRequests | None = _extensions(scope).get(EXTENSION)
    return OpenRequests() if found is None else found


def with_requests(scope: Scope, requests: OpenRequests) -> Scope:
    """Return `scope` for an application whose requests are counted among `requests`."""
    return {**scope, "extensions": _extensions(scope) | {EXTENSION: requests}}


def _extensions(scope: Scope) -> dict[str, Any]:
    extensions: dict[str, Any] = scope.get("extensions", {})
    return extensions
