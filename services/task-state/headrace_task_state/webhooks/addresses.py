"""Addresses that webhooks may have: a client's URL must not reach our own network."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Self

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
class Allowed:
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
