"""Connections to webhooks: resolve the name, check the address, and connect to that address.

A client's URL must not reach the fleet's own network.
If the name were resolved again after the check, it could have changed (DNS rebinding). TLS still
verifies the name, and the Host header still contains it.
"""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from threading import Thread
from typing import Any, Self

import httpcore

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

_NAT64 = (ip_network("64:ff9b::/96"),)
"""RFC 6052's prefix; its last 32 bits are an IPv4 address, which is what is reached."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All IPv6 addresses that IANA has assigned to single machines (RFC 4291, 2.5.4). Outside of it are
the forms that represent an IPv4 address: compatible, translated (`::ffff:0:0:0/96`), NAT64."""

_REFUSED = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's own services for its machines, at a public address
        "192.0.0.0/24",  # IETF protocols; anycast of the network's own NAT among them
        "192.88.99.0/24",  # 6to4 relays
        "2001::/23",  # IETF protocols: Teredo, benchmarks, ORCHID, anycast
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation (RFC 9637)
    )
)
"""Networks that Python counts as global, or does not classify, and that lead elsewhere."""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""Middle of an IPv6 address that ends with an IPv4 address (RFC 5214)."""


@dataclass(frozen=True, slots=True)
class AllowedDestinations:
    """Destinations allowed in addition to the public internet, also over HTTP without TLS."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = field(default=())

    @classmethod
    def parse(cls, items: Iterable[str]) -> Self:
        """Parse host names and networks, ``10.1.0.0/16`` or a single address.

        Raises:
            ValueError: an item looks like a network and is not one.
        """
        hosts: set[str] = set()
        networks: list[Network] = []
        for item in items:
            try:
                networks.append(ip_network(item))
            except ValueError:
                if "/" in item or ":" in item:
                    raise
                hosts.add(item.lower().rstrip("."))
        return cls(frozenset(hosts), tuple(networks))

    def names(self, host: str) -> bool:
        """Return whether the host is allowed by its name, whatever its address."""
        return host.lower().rstrip(".") in self.hosts

    def holds(self, address: str) -> bool:
        """Return whether the address is in an allowed network, also as an IPv4-mapped address."""
        reached = _reached(ip_address(address))
        return any(reached in network for network in self.networks)


def is_public(text: str) -> bool:
    """Return whether the address is a single machine's on the public internet."""
    address = _reached(ip_address(text))
    if isinstance(address, IPv6Address) and (
        address.scope_id or _is_isatap(address) or address not in _GLOBAL_UNICAST
    ):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _REFUSED)
    )


def _reached(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address represents, if any."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_isatap(address: IPv6Address) -> bool:
    return (int(address) >> 32) & 0xFFFFFFFF in _ISATAP


_LOOK_UPS = 256
"""Maximum concurrent name look-ups: more than one owner's limit of requests."""


class _LookUps:
    """Looks names up, each in a thread that ends with it.

    A pool would keep the threads of its busiest moment, each with 0.4 MB, and have the process wait
    at its end for names whose server does not answer.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_LOOK_UPS)

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """Return the addresses of `host`.

        Raises:
            OSError, UnicodeError: it has none, or no server answers.
        """
        async with self._free:
            found: Future[list[str]] = Future()
            found.set_running_or_notify_cancel()  # It can't be canceled: the thread sets it.
            work = partial(_look_up_into, found, host, port)
            Thread(target=work, name="look-up", daemon=True).start()
            return await asyncio.wrap_future(found)


def _look_up_into(found: Future[list[str]], host: str, port: int) -> None:
    try:
        found.set_result(_addresses_of(host, port))
    except Exception as error:  # noqa: BLE001 - who waits for the addresses handles it
        found.set_exception(error)


class AddressRefused(Exception):
    """The host has no address that may be reached; retrying does not help."""


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses and, by default, to public ones."""

    def __init__(self, allowed: AllowedDestinations, *, public: bool) -> None:
        """Connect to what is `allowed`, and to public addresses if `public`."""
        self._allowed, self._public = allowed, public
        self._network = httpcore.AnyIOBackend()
        self._look_ups = _LookUps()
        self._looking: dict[tuple[str, int], asyncio.Task[list[str]]] = {}

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
        last_error: Exception | None = None
        for address in await self._addresses(host, port):
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last_error = error
        raise last_error or httpcore.ConnectError(f"{host} has no address")

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
        raise AddressRefused(f"{path} is a Unix socket, which webhooks can't use")

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
            raise AddressRefused(f"{host} has no address that webhooks may use{how}")
        return reachable

    async def _look_up(self, host: str, port: int) -> list[str]:
        # A name whose server does not answer occupies a thread for half a minute, once for all
        # requests that need it.
        looking = self._looking.get((host, port))
        if looking is None:
            work = self._look_ups.addresses_of(host, port)
            looking = self._looking[host, port] = asyncio.create_task(work, name="look-up")
            looking.add_done_callback(lambda done: self._looked_up((host, port), done))
        try:
            return await asyncio.shield(looking)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} could not be resolved: {error}") from error

    def _looked_up(self, place: tuple[str, int], done: "asyncio.Task[list[str]]") -> None:
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
