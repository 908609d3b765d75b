"""Connections to webhooks, kept open for the next request to the same place.

httpcore's pool searches all of its connections for each waiting request, whenever a request begins
or ends. Here no request waits: their number is limited elsewhere.
"""

import ssl
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpcore

_MOST_IDLE = 100
_KEEP_ALIVE = 30.0

type _Place = tuple[bytes, bytes, int]


class Connections:
    """A connection pool in which finding a connection takes constant time."""

    def __init__(self, networks: dict[bytes, httpcore.AsyncNetworkBackend]) -> None:
        """Connect with the network backend of a URL's scheme."""
        self._networks = networks
        self._tls = ssl.create_default_context()
        # By place, the most recently used last; each place's newest connection is last.
        self._idle: OrderedDict[_Place, deque[_WebhookConnection]] = OrderedDict()
        self._count = 0

    async def close(self) -> None:
        """Close all idle connections."""
        while self._count:
            await self._drop_oldest()

    @asynccontextmanager
    async def connection(self, url: httpcore.URL) -> AsyncIterator[httpcore.AsyncHTTPConnection]:
        """Lend a connection to the place of `url`, for one request.

        Raises:
            httpcore.UnsupportedProtocol: webhooks don't support the scheme.
        """
        origin = url.origin
        place = origin.scheme, origin.host, origin.port
        if origin.scheme not in self._networks:
            raise httpcore.UnsupportedProtocol(
                f"a webhook's URL can't have the scheme {origin.scheme!r}"
            )
        used = await self._idle_one(place) or _WebhookConnection(
            origin, self._networks[origin.scheme], self._tls
        )
        try:
            yield used.http
        finally:
            if used.http.is_idle() and not used.http.has_expired():
                self._keep(place, used)
            else:
                await used.close()
        while self._count > _MOST_IDLE:
            await self._drop_oldest()

    async def _idle_one(self, place: _Place) -> "_WebhookConnection | None":
        idle = self._idle.get(place)
        while idle:
            found = idle.pop()
            self._count -= 1
            if not idle:
                del self._idle[place]
            if not found.http.has_expired():
                return found
            await found.close()
        return None

    def _keep(self, place: _Place, used: "_WebhookConnection") -> None:
        self._idle.setdefault(place, deque()).append(used)
        self._idle.move_to_end(place)
        self._count += 1

    async def _drop_oldest(self) -> None:
        place, idle = next(iter(self._idle.items()))
        oldest = idle.popleft()
        self._count -= 1
        if not idle:
            del self._idle[place]
        await oldest.close()


class _WebhookConnection:
    def __init__(
        self, origin: httpcore.Origin, network: httpcore.AsyncNetworkBackend, tls: ssl.SSLContext
    ) -> None:
        self._network = _RecordingBackend(network)
        self.http = httpcore.AsyncHTTPConnection(
            origin, ssl_context=tls, keepalive_expiry=_KEEP_ALIVE, network_backend=self._network
        )

    async def close(self) -> None:
        await self.http.aclose()
        # httpcore forgets a socket whose TLS handshake was cancelled, and it would stay open.
        if self._network.stream is not None:
            await self._network.stream.aclose()


class _RecordingBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, network: httpcore.AsyncNetworkBackend) -> None:
        self._network = network
        self.stream: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(self, *place: Any, **options: Any) -> httpcore.AsyncNetworkStream:  # noqa: ANN401 - httpcore's
        self.stream = await self._network.connect_tcp(*place, **options)
        return self.stream
