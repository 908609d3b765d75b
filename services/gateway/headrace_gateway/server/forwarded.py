"""The address that clients have used, as reverse proxies state it (RFC 7239, and X-Forwarded-…).

Only a proxy of HEADRACE_TRUSTED_PROXIES is believed, because anybody can send these headers. What
it states takes the place of Host and scheme, so that it is checked like those of every request.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "headrace.forwarded_prefix"
"""Key in a request's scope: the path at which a proxy serves the gateway."""

_SCHEMES = {"http": "ws", "https": "wss"}
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,64}){1,8}/?")
_PAIR = re.compile(
    r"\s*+(?:([!#$%&'*+.^_`|~0-9A-Za-z-]++)="
    r'("(?:[^"\\]|\\.)*+"|[^\s;,"]*+))?+\s*+([;,]|$)'
)
"""One pair of RFC 7239, and what ends it. A client may send the beginning of the header, so nothing
in it is looked at twice."""
_PREFIX_HEADER = "x-forwarded-prefix"


class TrustedProxies:
    """The addresses of the proxies that are believed."""

    def __init__(self, stated: Iterable[str]) -> None:
        """Take addresses and networks; ``*`` is everybody.

        Raises:
            ValueError: one is neither.
        """
        self._networks = list[IPv4Network | IPv6Network]()
        self._all = False
        for one in stated:
            if one == "*":
                self._all = True
            else:
                self._networks.append(ip_network(one))

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._all or bool(self._networks)

    def has(self, host: str) -> bool:
        """Return whether the peer with the address `host` is one of them."""
        if self._all:
            return True
        try:
            address = ip_address(host.strip("[]"))
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)


class _Stated(NamedTuple):
    """What a proxy states; empty where it does not."""

    scheme: str = ""
    host: str = ""
    prefix: str = ""


class ForwardedApp:
    """Middleware that takes scheme, host and prefix from trusted proxies."""

    def __init__(self, app: ASGIApp, trusted: TrustedProxies) -> None:
        """Pass requests to `app`, and believe those that are `trusted`."""
        self._app, self._trusted = app, trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] in ("http", "websocket"):
            peer, _ = scope.get("client") or ("", 0)
            if self._trusted.has(peer):
                self._believe(scope)
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope) -> None:
        stated = self._stated(scope["headers"])
        if stated.scheme in _SCHEMES:
            is_socket = scope["type"] == "websocket"
            scope["scheme"] = _SCHEMES[stated.scheme] if is_socket else stated.scheme
        if stated.host:
            host = (b"host", stated.host.encode("latin-1"))
            scope["headers"] = [host, *(one for one in scope["headers"] if one[0] != b"host")]
        if _PATH.fullmatch(stated.prefix):
            scope[PREFIX] = stated.prefix.rstrip("/")

    def _stated(self, headers: Iterable[tuple[bytes, bytes]]) -> _Stated:
        found = dict[str, str]()
        for name, value in headers:
            if name == b"forwarded" or name.startswith(b"x-forwarded-"):
                # Several headers are one list.
                key, text = name.decode("latin-1"), value.decode("latin-1")
                found[key] = f"{found[key]},{text}" if key in found else text
        prefix = _last(found.get(_PREFIX_HEADER, ""))
        if "forwarded" in found:
            pairs = self._outermost(found["forwarded"])
            return _Stated(pairs.get("proto", "").lower(), pairs.get("host", ""), prefix)
        scheme, host = (_last(found.get(f"x-forwarded-{name}", "")) for name in ("proto", "host"))
        return _Stated(scheme.lower(), host, prefix)

    def _outermost(self, forwarded: str) -> dict[str, str]:
        """Return what the trusted proxy states that is nearest to the client.

        Each proxy adds an element with the address of its own client, which may be a proxy, too.
        """
        pairs = dict[str, str]()
        for added in reversed(_elements(forwarded)):
            pairs |= added
            if not self._trusted.has(_without_port(added.get("for", ""))):
                break
        return pairs


def _elements(forwarded: str) -> list[dict[str, str]]:
    """Return what each proxy has added; nothing if the header is malformed.

    What a client has begun, such as a quotation, could go on in what a proxy has added.
    """
    elements, at = [dict[str, str]()], 0
    while at < len(forwarded):
        pair = _PAIR.match(forwarded, at)
        if pair is None:
            return []
        name, value, delimiter = pair.groups()
        if name:
            elements[-1][name.lower()] = _unquoted(value)
        if delimiter == ",":
            elements.append({})
        at = pair.end()
    return elements


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _without_port(node: str) -> str:
    host = node[: node.find("]") + 1] if node.startswith("[") else node.partition(":")[0]
    return host.strip("[]")


def _last(values: str) -> str:
    """Return the value that the nearest proxy has added to a list."""
    return values.rpartition(",")[2].strip()
