"""Disconnects of clients whose responses wait for something, or are streamed.

This gateway's HTTP protocol reports them by a call. Under ASGI alone a client that disconnects is
known only by receiving, for which every waiting request would need an asyncio task: 2 KB and about
20 µs each.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from starlette.types import Receive, Scope

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
