"""The bytes of request heads that have arrived in part, of all connections.

Nobody has said yet who sends them, so they are told apart by network address.
"""

from collections import Counter
from ipaddress import ip_address, ip_network
from typing import Protocol

import prometheus_client

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes. A usual head arrives in one piece, and does not count."""

REFUSED = prometheus_client.Counter(
    "headrace_incomplete_heads_refused",
    "Requests refused because too many bytes of incomplete request heads were held.",
)

_NETWORK = 64
"""Bits of an IPv6 address that one client can't choose."""


class IncompleteHead(Protocol):
    """A connection whose next request has arrived in part."""

    def give_way(self) -> None:
        """Refuse the request, and resize it to 0."""


class IncompleteHeads:
    """Limits them: the oldest head of the address that holds most gives way.

    So a client that holds many does not have those of others refused.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._heads = dict[str, dict[IncompleteHead, int]]()
        """By address; the oldest head is the first."""
        self._sizes = Counter[str]()
        self.size = 0
        """Bytes of all."""

    def resize(self, head: IncompleteHead, address: str, size: int) -> None:
        """Set the size of a head from `address`; 0 removes it. Any head may give way, also this."""
        heads = self._heads.setdefault(address, {})
        added = size - heads.get(head, 0)
        self._sizes[address] += added
        self.size += added
        if size:
            heads[head] = size
        else:
            heads.pop(head, None)
        if not heads:
            del self._heads[address], self._sizes[address]
        while self.size > MOST_BYTES:
            [(largest, _)] = self._sizes.most_common(1)
            REFUSED.inc()
            next(iter(self._heads[largest])).give_way()


def address_of(peer: object) -> str:
    """Return what tells clients apart: the host of a socket's peer name, or its IPv6 network.

    Empty for all others: a Unix socket's peers have no names.
    """
    if not isinstance(peer, tuple):
        return ""
    host = str(peer[0])
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:  # noqa: PLR2004 - IPv4
        return host
    mapped = address.ipv4_mapped
    return str(mapped or ip_network((address, _NETWORK), strict=False))
