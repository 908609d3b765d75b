"""Serves the console's built files at ``/console/``, and sends browsers there from ``/``.

The files are static and public: whatever they show, they request with the user's credentials. All
addresses in them are relative, so they work under any prefix of a proxy.
"""

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from headrace_gateway.console.sign_in import SIGN_IN_PATH, sign_in_of, token_origin
from headrace_gateway.server.auth.credentials_file import KnownCredentials
from headrace_gateway.server.json_response import NO_STORE, json_response

SITE = Path(__file__).parent / "site"

_INDEX = "index.html"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}

_SOURCES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    # Pictures in messages are data; a picture from elsewhere would report who reads it.
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # HTML enters the page through the sanitizer only.
    "require-trusted-types-for": "'script'",
    "trusted-types": "dompurify",
}
_LOOPBACK = {"connect-src": "'self' http://127.0.0.1:* http://localhost:*"}
"""Also the other gateways of a development stack."""

_GUARDED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}
_REVALIDATE = "no-cache"
# The name of an asset contains a hash of its content.
_IMMUTABLE = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A built file as it is sent."""

    content: bytes
    compressed: bytes
    headers: dict[str, str]


@cache
def site() -> dict[str, SiteFile]:
    """Return the built files by their path below ``/console/``."""
    paths = sorted(path for path in SITE.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(SITE).as_posix(): _site_file(path) for path in paths}


def _site_file(path: Path) -> SiteFile:
    content = path.read_bytes()
    headers = {
        "Content-Type": _MEDIA_TYPES[path.suffix],
        "Cache-Control": _IMMUTABLE if path.parent.name == "assets" else _REVALIDATE,
        # Weak, because the compressed file has the same one.
        "ETag": f'W/"{blake2b(content, digest_size=12).hexdigest()}"',
    }
    return SiteFile(content, gzip.compress(content, mtime=0), headers)


class ConsolePages:
    """The console's routes."""

    def __init__(
        self, known: Callable[[], KnownCredentials | None] = lambda: None, *, loopback: bool = False
    ) -> None:
        """Serve pages that may connect to this gateway and, if `loopback`, to this machine.

        They also connect to the origin that issues tokens for the console, if `known`, the
        credentials that the gateway accepts, names one.
        """
        self._known = known
        self._sources = _SOURCES | (_LOOPBACK if loopback else {})

    def routes(self) -> list[Route]:
        """Return the routes, which come before those of all protocols."""
        return [
            _BrowserRoute("/", self._from_root, methods=["GET"]),
            Route("/console", self._from_folder, methods=["GET"]),
            Route("/console/", self._file, methods=["GET"]),
            Route("/console/{path:path}", self._file, methods=["GET"]),
        ]

    async def _from_root(self, request: Request) -> Response:  # noqa: ARG002 - a route
        # Relative, because a proxy may have removed a prefix from the path.
        return RedirectResponse("console/", headers={"Vary": "Accept"})

    async def _from_folder(self, request: Request) -> Response:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"console/{query}")

    def _sign_in(self) -> Response:
        return json_response(sign_in_of(self._known()), headers={**self._guarded(), **NO_STORE})

    def _guarded(self) -> dict[str, str]:
        """Return the headers of all responses, by the credentials that the gateway accepts now."""
        issuer = token_origin(self._known())
        reached = " ".join(filter(None, (self._sources["connect-src"], issuer)))
        sources = self._sources | {"connect-src": reached}
        return {"Content-Security-Policy": "; ".join(map(" ".join, sources.items())), **_GUARDED}

    async def _file(self, request: Request) -> Response:
        path = request.path_params.get("path", _INDEX)
        if path == SIGN_IN_PATH:
            return self._sign_in()
        # Compressing takes some milliseconds, once.
        found = (await asyncio.to_thread(site)).get(path)
        if found is None:
            return Response("not found", 404, self._guarded(), "text/plain")
        headers = self._guarded() | found.headers
        if found.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.compressed, 200, {**headers, "Content-Encoding": "gzip"})
        return Response(found.content, 200, headers)


class _BrowserRoute(Route):
    """A route for requests that ask for HTML; others continue to the next route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path of a request from a browser's address bar or link."""
        if scope["type"] != "http" or "text/html" not in Headers(scope=scope).get("accept", ""):
            return Match.NONE, {}
        return super().matches(scope)
