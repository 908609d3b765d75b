"""Connections to webhooks: resolve the name, check the address, and connect to that address.

If the name were resolved again after the check, it could have changed (DNS rebinding). TLS still
verifies the name, and the Host header still contains it.
"""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore

from headrace_task_state.webhooks.addresses import Allowed, is_public

_LOOK_UPS = 256
"""Maximum concurrent name look-ups: more than one owner's limit of requests."""


class AddressRefused(Exception):
    """The host has no address that may be reached; retrying does not help."""


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses and, by default, to public ones."""

    def __init__(self, allowed: Allowed, *, public: bool) -> None:
        """Connect to what is `allowed`, and to public addresses if `public`."""
        self._allowed, self._public = allowed, public
        self._network = httpcore.AnyIOBackend()
        # Separate from the loop's own threads, which are few.
        self._threads = ThreadPoolExecutor(_LOOK_UPS, "look-up")
        self._looking: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first permitted address of `host` that answers.

        Raises:
            AddressRefused: no address is permitted.
            httpcore.ConnectError, httpcore.ConnectTimeout: the name is unknown, or no address
                answers.
        """
        trouble: Exception | None = None
        for address in await self._addresses(host, port):
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                trouble = error
        raise trouble or httpcore.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002 - httpcore's signature
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - likewise
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: a webhook is never a local socket.

        Raises:
            AddressRefused: always.
        """
        raise AddressRefused(f"{path} is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the loop."""
        await self._network.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        found = await self._look_up(host, port)
        if self._allowed.names(host):
            return found
        reachable = [address for address in found if self._may_reach(address)]
        if found and not reachable:
            how = "" if self._public else " without TLS"
            raise AddressRefused(f"{host} has no address that may be reached{how}")
        return reachable

    async def _look_up(self, host: str, port: int) -> list[str]:
        # A name whose server does not answer occupies a thread for half a minute, once for all
        # requests that need it.
        looking = self._looking.get((host, port))
        if looking is None:
            loop = asyncio.get_running_loop()
            looking = self._looking[host, port] = loop.run_in_executor(
                self._threads, _addresses_of, host, port
            )
            looking.add_done_callback(lambda done: self._looked_up((host, port), done))
        try:
            return await asyncio.shield(looking)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} can't be looked up: {error}") from error

    def _looked_up(self, place: tuple[str, int], done: "asyncio.Future[list[str]]") -> None:
        del self._looking[place]
        if not done.cancelled():
            # The waiters may be gone; asyncio would then log that the exception was never
            # retrieved.
            done.exception()

    def _may_reach(self, address: str) -> bool:
        return self._allowed.holds(address) or (self._public and is_public(address))


def _addresses_of(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
