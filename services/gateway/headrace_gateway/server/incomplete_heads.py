"""The bytes of request heads that have arrived in part, of all connections.

Nobody has said yet who sends them, so they are told apart by network address.
"""

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, Protocol

import prometheus_client

MOST_BYTES = 64 * 1024 * 1024
"""Maximum bytes. A usual head arrives in one piece, and does not count."""

REFUSED = prometheus_client.Counter(
    "headrace_incomplete_heads_refused",
    "Requests refused because too many bytes of incomplete request heads were held.",
)

_ENOUGH = 7 / 8
"""Part of `MOST_BYTES` that stays when heads give way. To choose them takes milliseconds for tens
of thousands of clients, so it must not be necessary for every piece of a head."""

_CHOSEN = {4: (8, 0), 6: (80, 64)}
"""By version of an address: how many of its last bits one party with a whole network can choose,
and how many of them each of its clients."""


class PeerAddress(NamedTuple):
    """What tells clients apart."""

    network: object
    """The network that one party may have whole: /24 of IPv4, /48 of IPv6."""
    client: object
    """The IPv4 address, or /64 of the IPv6 address."""


class IncompleteHead(Protocol):
    """A connection whose next request has arrived in part."""

    def give_way(self) -> None:
        """Refuse the request, and resize it to 0."""


class _Network:
    """Heads from one network."""

    def __init__(self) -> None:
        self.size = 0
        self.sizes = Counter[object]()
        """By client, as the heads."""
        self.heads = dict[object, dict[IncompleteHead, int]]()
        """The oldest head of a client is the first."""


class IncompleteHeads:
    """Limits them: heads of the network that holds most give way.

    Of these, those of the client that holds most are first, the oldest before the others. So a
    client that holds many does not have those of others refused, also if it has many addresses.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._networks = dict[object, _Network]()
        self.size = 0
        """Bytes of all."""

    def resize(self, head: IncompleteHead, address: PeerAddress, size: int) -> None:
        """Set the size of a head from `address`; 0 removes it. Any head may give way, also this."""
        network = self._networks.setdefault(address.network, _Network())
        heads = network.heads.setdefault(address.client, {})
        added = size - heads.get(head, 0)
        network.sizes[address.client] += added
        network.size += added
        self.size += added
        if size:
            heads[head] = size
        else:
            heads.pop(head, None)
        if not heads:
            del network.heads[address.client], network.sizes[address.client]
        if not network.heads:
            del self._networks[address.network]
        if added > 0 and self.size > MOST_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        enough = MOST_BYTES * _ENOUGH
        for head in self._largest_first():
            if self.size <= enough:
                return
            REFUSED.inc()
            head.give_way()

    def _largest_first(self) -> Iterator[IncompleteHead]:
        """Return the heads in the order in which they give way, which removes them."""
        for network in sorted(self._networks.values(), key=lambda one: one.size, reverse=True):
            for client, _ in network.sizes.most_common():
                yield from list(network.heads[client])


def address_of(peer: object) -> PeerAddress:
    """Return the address of a socket's peer name.

    Those of all others are the same: a Unix socket's peers have no names.
    """
    host = str(peer[0]) if isinstance(peer, tuple) else ""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return PeerAddress(host, host)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    of_network, of_client = _CHOSEN[address.version]
    bits = int(address)
    return PeerAddress((address.version, bits >> of_network), (address.version, bits >> of_client))
