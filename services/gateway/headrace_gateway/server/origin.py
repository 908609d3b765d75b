"""Who may call from a browser: a page on the web must not reach a gateway on loopback.

A browser tells where a page comes from (Origin, Sec-Fetch-Site) and which host it means (Host).
Requests of foreign pages are refused before anything is read; so are hosts that this gateway does
not go by, since a name that turns to loopback (DNS rebinding) makes a foreign page look like ours.
An address is nobody's to turn: probes and Prometheus, which know a gateway by it, are let through.
Programs that are no browsers send no Origin and are not concerned.

A browser sends a plain GET anywhere, without Origin: a link, a frame, an image. A GET that starts
work is therefore held to more (`Origins.refusal_of_effect`).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.model.errors import HeadraceError
from headrace_gateway.server.json_response import json_response
from headrace_gateway.settings import GatewaySettings

LOOPBACK = "loopback"
"""In HEADRACE_CORS_ORIGINS: any page of this machine, if it asks by CORS (`fetch`)."""

LOOPBACK_ORIGIN = re.compile(
    r"https?://(localhost|[\w.-]+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?"
)


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{0,5})?")


class PageRefused(HeadraceError):
    """A page calls, or starts work by a GET, and not every page may."""

    code = "page_refused"


def _forbidden(request: Request, refused: PageRefused) -> Response:  # noqa: ARG001 - one shape for all
    error = {"code": 403, "status": "PERMISSION_DENIED", "message": str(refused)}
    return json_response({"error": error}, 403)


class OriginGuard:
    """Middleware that lets through what may come from where it comes from."""

    def __init__(
        self,
        app: ASGIApp,
        settings: GatewaySettings,
        forbidden: Callable[[Request, PageRefused], Response] = _forbidden,
    ) -> None:
        """Guard `app`; `forbidden` answers a request that is refused."""
        self._app, self._origins, self._forbidden = app, Origins(settings), forbidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or hand on."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._origins.refusal(Headers(scope=scope))
            if refusal:
                await self._refuse(refusal, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
            return
        await self._forbidden(Request(scope), PageRefused(reason))(scope, receive, send)


class Origins:
    """Which pages may call, and by which names of the gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Let call whom `settings` name, beside the gateway's own pages."""
        self._origins = set(settings.cors_origins)
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        # Behind a proxy that listens on loopback, only the operator can know.
        self._any_host = not (self._hosts or is_loopback(settings.http_host))
        if settings.public_url:
            public = urlsplit(settings.public_url)
            self._hosts.add(public.hostname or "")
            self._origins.add(f"{public.scheme}://{public.netloc}")

    def refusal(self, headers: Headers) -> str:
        """Return why a request with these headers is refused; empty: it is not."""
        host = headers.get("host", "")
        if host and _HOST.fullmatch(host) is None:
            return f"{host!r} in Host is no name or address, perhaps with a port"
        if not self._any_host and not self._goes_by(host):
            return f"this gateway does not go by {host!r}; HEADRACE_ALLOWED_HOSTS may name it"
        origin = headers.get("origin")
        if origin is None:
            return _refusal_by_site(headers)
        if self._may_call(origin, host) or self._is_local_fetch(origin, headers):
            return ""
        return f"pages of {origin!r} may not call; HEADRACE_CORS_ORIGINS may name it"

    def refusal_of_effect(self, headers: Headers) -> str:
        """Return why a GET that starts work is refused; empty: it is not.

        A page must say that it is the gateway's own or a listed one: by Origin, which `refusal` has
        looked at, by Sec-Fetch-Site, or, over plain HTTP, where browsers leave that out, by
        Referer.
        """
        if "origin" in headers:
            return ""
        site = headers.get("sec-fetch-site")
        if site == "same-origin" or (site is None and not _is_browser(headers)):
            return ""
        page = _split(headers.get("referer", ""))
        referer = f"{page.scheme}://{page.netloc}"
        if site is None and self._may_call(referer, headers.get("host", "")):
            return ""
        return (
            "only pages of this gateway or of origins in HEADRACE_CORS_ORIGINS may send a message "
            "by GET; send it by POST"
        )

    def _may_call(self, origin: str, host: str) -> bool:
        same = _split(origin).netloc == host != ""
        return same or "*" in self._origins or origin.rstrip("/") in self._origins

    def _is_local_fetch(self, origin: str, headers: Headers) -> bool:
        is_local = LOOPBACK in self._origins and LOOPBACK_ORIGIN.fullmatch(origin) is not None
        # A form, too, names its page's origin, but the browser asks nobody before it is sent.
        return is_local and headers.get("sec-fetch-mode") == "cors"

    def _goes_by(self, host: str) -> bool:
        name = (_split(f"//{host}").hostname or "").lower()
        return name in self._hosts or is_loopback(name) or _is_address(name)


def _split(url: str) -> SplitResult:
    """Return the parts of what a client calls a URL; of what is none, nothing."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


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


def _is_browser(headers: Headers) -> bool:
    # Every browser says so, and pages can't change it in what they send without permission.
    return headers.get("user-agent", "").startswith("Mozilla/")


def _refusal_by_site(headers: Headers) -> str:
    # Without CORS a page can still send plain GETs (an image, a script), which carry no Origin.
    is_foreign = headers.get("sec-fetch-site") == "cross-site"
    if is_foreign and headers.get("sec-fetch-mode") != "navigate":
        return "pages of other sites may not call; HEADRACE_CORS_ORIGINS may name them"
    return ""
