"""An OpenID Connect provider with one user: sign-in page, tokens, refresh tokens, sign-out."""

import hashlib
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.support.asgi_server import asgi_server
from tests.support.credentials import AUDIENCE, Issuer

CLIENT = "headrace-console"

_PAGE = '<title>Issuer</title><a id="approve" href="{}">Approve</a> <a id="refuse" href="{}">No</a>'


@dataclass
class OpenIdProvider:
    """The provider; its only client is public, so that a code is worth nothing without PKCE."""

    url: str = ""
    """The issuer."""
    lifetime: float = 600.0
    """Seconds for which a token is valid."""
    states_lifetime: bool = True
    """Whether clients are told for how long."""
    claims: dict[str, object] = field(default_factory=lambda: {"sub": "ann", "name": "Ann"})
    nonce: str | None = None
    """The nonce of ID tokens; None: the one that the client has sent."""
    refreshed: int = 0
    """How often a refresh token was exchanged."""
    signed_out: int = 0
    _keys: Issuer = field(default_factory=Issuer)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refresh: dict[str, str] = field(default_factory=dict)
    """The nonce of each refresh token that was not exchanged yet."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve the provider for the length of the block."""
        pages = {
            "/.well-known/openid-configuration": self._discovery,
            "/authorize": self._authorize,
            "/approve": self._approve,
            "/out": self._sign_out,
        }
        routes = [Route(path, page) for path, page in pages.items()]
        routes.append(Route("/token", self._token, methods=["POST"]))
        cors = Middleware(CORSMiddleware, allow_origins=["*"])
        async with asgi_server(Starlette(routes=routes, middleware=[cors])) as self.url:
            yield

    def discovery(self) -> dict[str, str]:
        """Return the discovery document."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "end_session_endpoint": f"{self.url}/out",
        }

    def write(self, folder: Path, head: str = "", tail: str = "") -> Path:
        """Write a credentials file for the provider's tokens, with the files that it names."""
        self._keys.write_keys(folder / "keys.json")
        (folder / "discovery.json").write_text(json.dumps(self.discovery()))
        file = folder / "credentials.toml"
        file.write_text(
            f'{head}\n[jwt]\nissuer = "{self.url}"\naudience = "{AUDIENCE}"\n'
            f'algorithms = ["ES256"]\nkeys = "keys.json"\nleeway = 0\n{tail}\n'
            f'[jwt.sign_in]\ndiscovery = "discovery.json"\nconsole_client = "{CLIENT}"\n'
        )
        return file

    def revoke(self) -> None:
        """Refuse the refresh tokens that were issued so far."""
        self._refresh.clear()

    async def _discovery(self, request: Request) -> Response:  # noqa: ARG002 - a route
        return JSONResponse(self.discovery())

    async def _authorize(self, request: Request) -> Response:
        """Show the page on which the user approves."""
        query = dict(request.query_params)
        known = query["client_id"] == CLIENT and query["response_type"] == "code"
        if not known or query["code_challenge_method"] != "S256":
            return Response("unknown client", 400)
        refusal = {"error": "access_denied", "state": query["state"]}
        refused = f"{query['redirect_uri']}?{urlencode(refusal)}"
        # In an attribute of HTML.
        links = [f"/approve?{urlencode(query)}", refused]
        return HTMLResponse(_PAGE.format(*(link.replace("&", "&amp;") for link in links)))

    async def _approve(self, request: Request) -> Response:
        """Send the browser back with a code."""
        query = dict(request.query_params)
        code = secrets.token_urlsafe()
        self._codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.url}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        """Exchange a code, or a refresh token, each once."""
        form = {name: str(value) for name, value in (await request.form()).items()}
        if form.get("client_id") != CLIENT:
            return JSONResponse({"error": "invalid_client"}, 401)
        if form["grant_type"] == "refresh_token":
            nonce = self._refresh.pop(form["refresh_token"], None)
            if nonce is None:
                return JSONResponse({"error": "invalid_grant"}, 400)
            self.refreshed += 1
            return self._issued(nonce)
        asked = self._codes.pop(form["code"], None)
        if asked is None or not _fits(asked, form):
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._issued(asked["nonce"])

    def _issued(self, nonce: str) -> Response:
        until = time.time() + self.lifetime
        claims = {"iss": self.url, "exp": until, "jti": secrets.token_hex(8), **self.claims}
        identity = {**claims, "aud": CLIENT, "nonce": self.nonce or nonce}
        refresh = secrets.token_urlsafe()
        self._refresh[refresh] = nonce
        return JSONResponse(
            {
                "token_type": "Bearer",
                "access_token": self._keys.token({**claims, "aud": AUDIENCE}),
                "id_token": self._keys.token(identity),
                "refresh_token": refresh,
                **({"expires_in": self.lifetime} if self.states_lifetime else {}),
            }
        )

    async def _sign_out(self, request: Request) -> Response:
        self.signed_out += 1
        return RedirectResponse(request.query_params["post_logout_redirect_uri"], 302)


def _fits(asked: dict[str, str], form: dict[str, str]) -> bool:
    """Return whether a code is exchanged by who asked for it."""
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
    same = form["redirect_uri"] == asked["redirect_uri"]
    return same and challenge == asked["code_challenge"]
