"""Origin checks: pages on the web must not reach a gateway on loopback through a browser.

A browser sends where a page comes from (Origin, Sec-Fetch-Site) and which host it addresses (Host).
Requests of foreign pages are refused before anything is read. Requests with an unknown host name
are refused too, because with a name that resolves to loopback (DNS rebinding) a foreign page would
have the gateway's origin. IP addresses in Host are allowed: they can't be rebound, and probes and
Prometheus use them. Programs other than browsers send no Origin and are not affected.

A browser sends a plain GET to any site without Origin: a link, a frame, an image. So a GET that
starts work has stricter rules (`Origins.refusal_of_effect`).
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import override
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.model.errors import HeadraceError
from headrace_gateway.server.endpoints import IndexedHeaders, headers_of
from headrace_gateway.settings import GatewaySettings

LOOPBACK = "loopback"
"""In HEADRACE_CORS_ORIGINS: any page of this machine, if it uses CORS (`fetch`)."""

LOOPBACK_ORIGIN = re.compile(
    r"https?://(localhost|[\w.-]+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?"
)


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:[0-9]{0,5})?")


class PageRefused(HeadraceError):
    """The origin of the page is not allowed, or the page started work with a GET."""

    code = "page_refused"


class OriginGuard:
    """Middleware that refuses requests of foreign pages and for unknown hosts."""

    def __init__(
        self,
        app: ASGIApp,
        settings: GatewaySettings,
        forbidden: Callable[[Request, PageRefused], Response],
        for_any_page: Callable[[Scope], bool] = lambda _: False,
    ) -> None:
        """Guard `app`; `forbidden` answers a refused request.

        Pages may send those that are `for_any_page`, because their URL is permission enough.
        """
        self._app, self._origins, self._forbidden = app, Origins(settings), forbidden
        self._for_any_page = for_any_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] in ("http", "websocket"):
            refusal = self._origins.refusal(headers_of(scope))
            if refusal and self._for_any_page(scope):
                refusal = self._origins.refusal_of_host(headers_of(scope))
            if refusal:
                await self._refuse(refusal, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _refuse(self, reason: str, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": reason[:120]})
            return
        await self._forbidden(Request(scope), PageRefused(reason))(scope, receive, send)


class PageCors(CORSMiddleware):
    """Starlette's CORS middleware, without what it would spend on each POST of a program."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and add to the response what a page needs.

        Without Origin the response would get ``Vary`` alone, which is for caches. They keep no
        response to a POST that does not state its freshness (RFC 9110, section 9.3.3).
        """
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if is_post and "origin" not in headers_of(scope).first:
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Origins:
    """The pages that may call, and the host names of the gateway."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Allow the origins in `settings` and the gateway's own pages."""
        self._origins = set(settings.cors_origins)
        self._hosts = {host.lower() for host in settings.allowed_hosts}
        # Behind a proxy that connects over loopback, only the operator can list the host names.
        self._any_host = not (self._hosts or is_loopback(settings.http_host))
        if settings.public_url:
            public = urlsplit(settings.public_url)
            self._hosts.add(public.hostname or "")
            self._origins.add(f"{public.scheme}://{public.netloc}")
        self._refusal_of_host = lru_cache(maxsize=256)(self._check_host)

    def refusal(self, headers: IndexedHeaders) -> str:
        """Return why a request with these headers is refused; empty if it is not."""
        host = headers.first.get("host", "")
        if refusal := self._refusal_of_host(host):
            return refusal
        origin = headers.first.get("origin")
        if origin is None:
            return _refusal_by_site(headers) if "sec-fetch-site" in headers.first else ""
        if self._may_call(origin, host) or self._is_local_fetch(origin, headers):
            return ""
        return f"origin {origin!r} is not allowed; add it to HEADRACE_CORS_ORIGINS"

    def refusal_of_host(self, headers: IndexedHeaders) -> str:
        """Return why the host that these headers name is refused; empty if it is not."""
        return self._refusal_of_host(headers.first.get("host", ""))

    def refusal_of_effect(self, headers: Headers) -> str:
        """Return why a GET that starts work is refused; empty if it is not.

        A page must be the gateway's own or from a listed origin. This is known from Origin, which
        `refusal` has checked, or from Sec-Fetch-Site. Over plain HTTP, where browsers omit both, it
        is known from Referer.
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
            "only pages of this gateway or of HEADRACE_CORS_ORIGINS may send a message "
            "by GET; send it by POST"
        )

    def refusal_of_other_pages(self, headers: Headers) -> str:
        """Return why a request that only the gateway's own pages may send is refused; else empty.

        Listed origins and pages of this machine are refused, too. Programs, which send neither
        header, are not.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        is_own = origin is None or _is_same(origin, host)
        if is_own and headers.get("sec-fetch-site", "same-origin") == "same-origin":
            return ""
        return "only pages of this gateway may ask for this"

    def _check_host(self, host: str) -> str:
        if host and _HOST.fullmatch(host) is None:
            return f"the header Host is not a host name or address with an optional port: {host!r}"
        if not self._any_host and not self._is_own_host(host):
            return f"{host!r} is not a host of this gateway; add it to HEADRACE_ALLOWED_HOSTS"
        return ""

    def _may_call(self, origin: str, host: str) -> bool:
        return _is_same(origin, host) or "*" in self._origins or origin.rstrip("/") in self._origins

    def _is_local_fetch(self, origin: str, headers: Headers) -> bool:
        is_local = LOOPBACK in self._origins and LOOPBACK_ORIGIN.fullmatch(origin) is not None
        # A form also sends its page's origin, but browsers send forms without a CORS preflight.
        return is_local and headers.get("sec-fetch-mode") == "cors"

    def _is_own_host(self, host: str) -> bool:
        name = (_split(f"//{host}").hostname or "").lower()
        return name in self._hosts or is_loopback(name) or _is_address(name)


def _is_same(origin: str, host: str) -> bool:
    return _split(origin).netloc == host != ""


def _split(url: str) -> SplitResult:
    """Return the parts of a client's URL; empty parts if it is invalid."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, is the machine's loopback."""
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
    # Every browser sends this, and pages can't change it in requests without a CORS preflight.
    return headers.get("user-agent", "").startswith("Mozilla/")


def _refusal_by_site(headers: Headers) -> str:
    # Without CORS a page can still send plain GETs (an image, a script), which carry no Origin.
    is_foreign = headers.get("sec-fetch-site") == "cross-site"
    if is_foreign and headers.get("sec-fetch-mode") != "navigate":
        return "cross-site requests are not allowed; add the origin to HEADRACE_CORS_ORIGINS"
    return ""
