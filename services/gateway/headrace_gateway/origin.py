"""Who may call from a browser: a page on the web must not reach a gateway on loopback.

A browser tells where a page comes from (Origin, Sec-Fetch-Site) and which host it means (Host).
Requests of foreign pages are refused before anything is read; so are hosts that this gateway does
not go by, since a name that turns to loopback (DNS rebinding) makes a foreign page look like ours.
An address is nobody's to turn: probes and Prometheus, which know a gateway by it, are let through.
Programs that are no browsers send no Origin and are not concerned.
"""

from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_gateway.hector.refusals import refused
from headrace_gateway.json_response import json_response
from headrace_gateway.settings import GatewaySettings


class OriginGuard:
    """Middleware that lets through what may come from where it comes from."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        """Guard `app`."""
        self._app = app
        self._origins = set(settings.cors_origins)
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        # Behind a proxy that listens on loopback, only the operator can know.
        self._any_host = not (self._hosts or is_loopback(settings.http_host))
        if settings.public_url:
            public = urlsplit(settings.public_url)
            self._hosts.add(public.hostname or "")
            self._origins.add(f"{public.scheme}://{public.netloc}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on."""
        if scope["type"] in ("http", "websocket"):
            refusal = self.refusal(Headers(scope=scope))
            if refusal:
                await _refuse(refusal, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def refusal(self, headers: Headers) -> str:
        """Return why a request with these headers is refused; empty: it is not."""
        host = headers.get("host", "")
        if not self._any_host and not self._goes_by(host):
            return f"this gateway does not go by {host!r}; HEADRACE_ALLOWED_HOSTS may name it"
        origin = headers.get("origin")
        if origin is None:
            return _refusal_by_site(headers)
        same = urlsplit(origin).netloc == host != ""
        if same or "*" in self._origins or origin.rstrip("/") in self._origins:
            return ""
        return f"pages of {origin!r} may not call; HEADRACE_CORS_ORIGINS may name it"

    def _goes_by(self, host: str) -> bool:
        name = (urlsplit(f"//{host}").hostname or "").lower()
        return name in self._hosts or is_loopback(name) or _is_address(name)


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is this machine for itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _refusal_by_site(headers: Headers) -> str:
    # Without CORS a page can still send plain GETs (an image, a script), which carry no Origin.
    is_foreign = headers.get("sec-fetch-site") == "cross-site"
    if is_foreign and headers.get("sec-fetch-mode") != "navigate":
        return "pages of other sites may not call; HEADRACE_CORS_ORIGINS may name them"
    return ""


async def _refuse(reason: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
        return
    if b"format=hector" in scope["query_string"].split(b"&"):
        status, content = refused("PERMISSION_DENIED", reason, {})
        await json_response(content, status)(scope, receive, send)
        return
    error = {"code": 403, "status": "PERMISSION_DENIED", "message": reason}
    await json_response({"error": error}, 403)(scope, receive, send)
