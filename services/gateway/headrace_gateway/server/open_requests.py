"""Requests in progress, which are answered before the server closes their connections.

A server that stops gives requests a short time and then cancels them. A request that waits for NATS
may need longer. A client that is only disconnected learns neither why nor whether its message was
stored. So each binding runs requests within `OpenRequests.one`, which raises in time. HTTP
routes do so with `map_errors`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace import log_context
from headrace.model.errors import HeadraceError
from headrace_gateway.refusals import GatewayRestarting, RateLimited, Unsettled

GRACE = 2.0
"""Seconds for requests to be answered after the server stops; streams end at once."""

ANSWERS = GRACE / 2
"""Seconds after which requests are abandoned, so that time is left to answer their clients."""

EXTENSION = "headrace.requests"
"""Key in a request's scope: the gateway's `OpenRequests`."""


class RequestRate(Protocol):
    """The rates that a request counts against, known with its caller."""

    def check(self) -> None:
        """Check that the request's caller has not reached a rate; counts nothing.

        Raises:
            RateLimited: it has.
        """

    def count(self) -> None:
        """Count the request.

        Raises:
            RateLimited: as `check`; the request is not counted.
        """


class OpenRequest:
    """One request: an ``async with`` block that raises when the request is abandoned.

    Raises:
        GatewayRestarting: the gateway stops, and nothing of the request is stored.
        Unsettled: the gateway stops, and the message may be stored.
    """

    __slots__ = (
        "_ended",
        "_limit",
        "_open",
        "_stored",
        "at_end",
        "began",
        "binding",
        "is_counted",
        "is_forwarded",
        "is_given_up",
        "operation",
        "protocol",
        "rate",
        "response_headers",
    )

    def __init__(
        self, among: set["OpenRequest"], ended: "OnEnd", protocol: str, binding: str
    ) -> None:
        """Count as one of `among` in the block, and call `ended` at its end."""
        self.is_given_up = False
        self.protocol, self.binding = protocol, binding
        self.operation = ""
        """A2A's name of the operation, once known (`name_operation`)."""
        self.is_forwarded = False
        """Whether another binding answers it, as a request of its own, which is counted instead."""
        self.began = 0.0
        """When the block began, in seconds of `time.perf_counter`."""
        self._open, self._ended = among, ended
        self._limit = asyncio.timeout(None)
        self._stored: tuple[str, str] | None = None
        """Task and context of the message that may be in a log."""
        self.at_end: Callable[[], None] | None = None
        """Called at the end of the block, to release the request's body."""
        self.is_counted = False
        """Whether the request is counted against its caller's rates."""
        self.rate: RequestRate | None = None
        """None: its caller is not known, or not limited."""
        self.response_headers: list[tuple[bytes, bytes]] = []
        """Headers of the HTTP response to add to its own."""

    async def __aenter__(self) -> Self:
        """Begin the request; nothing of it is stored yet."""
        self.began = time.perf_counter()
        self._open.add(self)
        _current.set(self)
        log_context.begin()
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the request."""
        self._open.discard(self)
        _current.set(None)
        if self.at_end is not None:
            self.at_end()
        try:
            await self._limit.__aexit__(kind, error, traceback)
        except TimeoutError:
            abandoned = Unsettled(*self._stored) if self._stored else _restarting()
            self._ended(self, abandoned)
            raise abandoned from error
        limited = None if error is None else self._refusal_of_rate(error)
        if error is not None or not self.is_forwarded:
            self._ended(self, limited or error)
        if limited is not None and isinstance(error, Exception):
            raise limited from error

    def _refusal_of_rate(self, error: BaseException) -> HeadraceError | None:
        """Count the request that `error` ended, unless it is counted or above its caller's rate.

        Return why its caller may send no more; None: it may, or `error` states it.
        """
        if not self.is_counted and self.rate is not None and not isinstance(error, RateLimited):
            try:
                self.rate.count()
            except RateLimited as limited:
                return limited
        return None

    def check_rate(self) -> None:
        """Check that the caller may send more, unless the request is counted already.

        Raises:
            RateLimited: it may not.
        """
        if not self.is_counted and self.rate is not None:
            self.rate.check()

    def give_up(self) -> None:
        """Make the block raise `GatewayRestarting`, or `Unsettled` after `storing`."""
        if not self.is_given_up:
            self.is_given_up = True
            self._limit.reschedule(asyncio.get_running_loop().time())

    def storing(self, task: str, context: str) -> None:
        """Record that an append of the message is about to be sent to the task's log.

        From now on an abandoned request raises `Unsettled`, because the message may be in the log.

        Raises:
            GatewayRestarting: the request is already abandoned; its client was informed that
                nothing is stored.
        """
        if self.is_given_up:
            raise _restarting()
        self._stored = task, context

    def stored_nothing(self) -> None:
        """Record that the append is in no log."""
        self._stored = None

    def with_headers(self, app: ASGIApp) -> ASGIApp:
        """Return the request's response `app` with the headers to add to it."""
        added = self.response_headers
        if not added:
            return app

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message = {**message, "headers": [*message["headers"], *added]}
                await send(message)

            await app(scope, receive, send_with_headers)

        return endpoint


_current: ContextVar[OpenRequest | None] = ContextVar("request", default=None)
_is_repeatable: ContextVar[bool] = ContextVar("is_repeatable", default=False)


def open_request() -> OpenRequest | None:
    """Return the request of the current task, or None."""
    return _current.get()


def check_rate() -> None:
    """Check that the caller of the current task's request may send more, unless it is counted.

    Raises:
        RateLimited: as `OpenRequest.check_rate`.
    """
    if (request := _current.get()) is not None:
        request.check_rate()


def name_operation(operation: str) -> None:
    """Record A2A's name of the operation that the current task's request asks for."""
    if (request := _current.get()) is not None:
        request.operation = operation


def forward_request() -> None:
    """Record that another binding answers the current task's request, and opens its own for it."""
    if (request := _current.get()) is not None:
        request.is_forwarded = request.is_counted = True


def unrepeatable_request() -> OpenRequest | None:
    """Return the request of the current task, or None if repeating that is safe."""
    return None if _is_repeatable.get() else _current.get()


def may_be_repeated() -> None:
    """Record that repeating the current task's request is safe."""
    _is_repeatable.set(True)


type OnEnd = Callable[[OpenRequest, BaseException | None], None]
"""Called at the end of each request, with the error that ended it."""


def _ignore(_request: OpenRequest, _error: BaseException | None) -> None:
    """Measure nothing."""


class OpenRequests:
    """The requests of one gateway."""

    def __init__(self, ended: OnEnd = _ignore) -> None:
        """Begin without requests; call `ended` at the end of each."""
        self._open, self._ended = set[OpenRequest](), ended
        self._is_stopping = False

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._open)

    def give_up(self) -> None:
        """Abandon all current requests; refuse later ones."""
        self._is_stopping = True
        for request in list(self._open):
            request.give_up()

    def refused(self, protocol: str, binding: str, error: Exception) -> None:
        """Count a request of `protocol` over `binding` that `error` refused before it began."""
        request = OpenRequest(self._open, self._ended, protocol, binding)
        request.began = time.perf_counter()
        self._ended(request, error)

    def one(self, protocol: str, binding: str) -> OpenRequest:
        """Return the block in which to run a request of `protocol` over `binding`.

        Raises:
            GatewayRestarting: the gateway stops.
        """
        if self._is_stopping:
            raise _restarting()
        return OpenRequest(self._open, self._ended, protocol, binding)


def _restarting() -> GatewayRestarting:
    return GatewayRestarting("the gateway is restarting and has no answer yet; try again")


def requests_of(scope: Scope) -> OpenRequests:
    """Return the `OpenRequests` in which the request is counted."""
    found: OpenRequests | None = scope.get("extensions", {}).get(EXTENSION)
    return OpenRequests() if found is None else found


PROTOCOL = "headrace.protocol"
"""Key in a request's scope: the name of the protocol whose route serves it."""

OTHER_PROTOCOL = "other"
"""Its value where no protocol's route does."""


class ProtocolApp:
    """A route's application that records its protocol's name in the scope."""

    __slots__ = ("_app", "_protocol")

    def __init__(self, protocol: str, app: ASGIApp) -> None:
        """Pass requests to `app`, as requests of `protocol`."""
        self._protocol, self._app = protocol, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        scope[PROTOCOL] = self._protocol
        await self._app(scope, receive, send)


def protocol_of(scope: Scope) -> str:
    """Return the name of the protocol whose route serves the request; ``other`` if none does."""
    found: str = scope.get(PROTOCOL, OTHER_PROTOCOL)
    return found


type Endpoint = Callable[[Request], Awaitable[ASGIApp]]

_CLIENT_WENT_AWAY = 499


def map_errors(endpoint: Endpoint, failed: Callable[[Request, Exception], Response]) -> Endpoint:
    """Return `endpoint` with a response by `failed` for every exception."""

    async def mapped(request: Request) -> ASGIApp:
        try:
            one = requests_of(request.scope).one(protocol_of(request.scope), "http")
            async with one:
                return one.with_headers(await endpoint(request))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_WENT_AWAY)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets protocol shape
            return failed(request, error)

    return mapped
