"""Public addresses of the fleet: a URL for HTTP, host and port for gRPC."""

from functools import lru_cache
from typing import override
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.types import Scope

from headrace.links import MARK, SERVED, Links
from headrace.model.entry import Entry
from headrace_gateway.server.forwarded import PREFIX
from headrace_gateway.settings import GatewaySettings

_HTTP = {"ws": "http", "wss": "https"}


def public_url(request: HTTPConnection, settings: GatewaySettings) -> str:
    """Return scheme, host and possibly a path, without a trailing slash.

    Without HEADRACE_PUBLIC_URL this is the address that the request was sent to, because the client
    can reach the gateway there again, with the path at which the gateway is mounted; or what a
    proxy of HEADRACE_TRUSTED_PROXIES states.
    """
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = request.headers.get("host")
    if not host:
        return own_url(settings)
    scheme = request.scope["scheme"]
    return f"{_HTTP.get(scheme, scheme)}://{host}{mounted_at(request)}"


class ClientLinks(Links):
    """Links of files as addresses at the URL that the served client uses.

    `SERVED` has the members that `public_url` reads of the scope of its request or WebSocket.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Make addresses at this gateway's own URL where no HTTP client is served."""
        super().__init__(own_url(settings))
        self._own, self._settings = Links(own_url(settings)), settings

    @override
    def entry_for(self, served: Scope | None, entry: Entry) -> Entry:
        for line in entry.lines:
            if MARK in line:
                return self._at(served).entry(entry)
        return entry

    @override
    def entry(self, entry: Entry) -> Entry:
        return self.entry_for(SERVED.get(), entry)

    @override
    def shown(self, text: bytes) -> bytes:
        return self._at(SERVED.get()).shown(text) if MARK in text else text

    @override
    def stored(self, url: object) -> str | None:
        return self._at(SERVED.get()).stored(url) if url else None

    def _at(self, scope: Scope | None) -> Links:
        if scope is None:
            return self._own
        return Links(public_url(HTTPConnection(scope), self._settings))


def mounted_at(request: HTTPConnection) -> str:
    """Return the path at which a proxy or another application serves the gateway; else empty."""
    prefix: str = request.scope.get(PREFIX, "")
    root: str = request.scope.get("root_path", "")
    return prefix + root.rstrip("/")


def own_url(settings: GatewaySettings) -> str:
    """Return the fleet's URL outside of a request: the public one, or that of this gateway."""
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = settings.http_host
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not bound
        host = "127.0.0.1"
    return (
        f"http://[{host}]:{settings.http_port}"
        if ":" in host
        else f"http://{host}:{settings.http_port}"
    )


def public_grpc(request: HTTPConnection, settings: GatewaySettings) -> str | None:
    """Return host and port for gRPC, or None if no setting contains them or no port is open.

    Without HEADRACE_PUBLIC_URL the host is the one that the request was sent to. Behind a proxy
    gRPC may have another address, so HEADRACE_PUBLIC_GRPC is required there.
    """
    if settings.public_grpc:
        return settings.public_grpc
    if settings.public_url or not settings.grpc_port:
        return None
    stated = request.headers.get("host")
    host = _name(stated or "") or request.url.hostname or settings.http_host
    return f"[{host}]:{settings.grpc_port}" if ":" in host else f"{host}:{settings.grpc_port}"


@lru_cache(maxsize=256)
def _name(host: str) -> str | None:
    """Return the name or address in a Host header, which is the same in most requests."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
