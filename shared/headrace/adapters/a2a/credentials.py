"""Credentials for outside agents: the headers of each request, and their source."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote_plus

import httpx
from a2a.types import AgentCard

from headrace.adapters.busy import is_busy, pause_of
from headrace.model.events import Json
from headrace.sdk.errors import Retryable

_EARLY = 30.0
"""Seconds before its expiry at which a token is replaced."""
_LIFETIME = 300.0
"""Lifetime of a token that does not state one, in seconds."""


@dataclass(frozen=True)
class OwnCard:
    """An agent's card, and the agent's URL that the credentials were given for."""

    card: AgentCard
    url: str


def is_same_origin(url: str, other: str) -> bool:
    """Return whether both URLs have the same scheme, host and port."""
    try:
        one, two = httpx.URL(url), httpx.URL(other)
    except httpx.InvalidURL:
        return False
    return _origin(one) == _origin(two)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


class Credentials(Protocol):
    """Protocol of credentials."""

    async def headers(self, card: OwnCard | None, http: httpx.AsyncClient) -> dict[str, str]:
        """Return the headers; `card` is the agent's, None while it is being read.

        Raises:
            Retryable: The token endpoint is busy or unreachable.
            AccessRefused: The token endpoint issues no token.
        """

    def forget(self) -> None:
        """Discard the last headers, which were refused."""


class AccessRefused(Exception):  # named for what happened
    """The token endpoint issued no token."""


@dataclass(frozen=True)
class ApiKey:
    """An API key in `header`; by default, in the header that the agent's card names."""

    key: str = field(repr=False)
    header: str = ""

    async def headers(self, card: OwnCard | None, http: httpx.AsyncClient) -> dict[str, str]:  # noqa: ARG002  # the protocol's
        """Return the key's header."""
        return {self.header or _key_header(None if card is None else card.card): self.key}

    def forget(self) -> None:
        """Do nothing: the key does not change."""


@dataclass(frozen=True)
class Bearer:
    """A token that does not change."""

    token: str = field(repr=False)

    async def headers(self, card: OwnCard | None, http: httpx.AsyncClient) -> dict[str, str]:  # noqa: ARG002  # the protocol's
        """Return the token's header."""
        return {"Authorization": f"Bearer {self.token}"}

    def forget(self) -> None:
        """Do nothing: the token does not change."""


@dataclass
class ClientCredentials:
    """OAuth 2 client credentials (RFC 6749, 4.4). Tokens are kept until they expire."""

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str = ""
    """URL of the token endpoint. If empty, the one in the agent's card is used, which must have the
    agent's own origin: a card that names another origin must not get the secret."""
    scopes: Sequence[str] = ()
    audience: str = ""
    _token: str = field(default="", repr=False, init=False)
    _until: float = field(default=0.0, init=False)
    _fetching: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, init=False)

    async def headers(self, card: OwnCard | None, http: httpx.AsyncClient) -> dict[str, str]:
        """Return the token's header."""
        if card is None and not self.token_url:
            # The card is public, and names the token endpoint.
            return {}
        async with self._fetching:
            if time.monotonic() >= self._until:
                await self._fetch(self.token_url or _token_url(card), http)
        return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> None:
        """Make the next request fetch a new token."""
        self._until = 0.0

    async def _fetch(self, url: str, http: httpx.AsyncClient) -> None:
        parameters = {"grant_type": "client_credentials", "scope": " ".join(self.scopes)}
        form = {
            key: value for key, value in {**parameters, "audience": self.audience}.items() if value
        }
        try:
            # Encoded as in a form, also in the header (RFC 6749, 2.3.1): servers decode it.
            auth = quote_plus(self.client_id), quote_plus(self.client_secret)
            answer = await http.post(url, data=form, auth=auth)
        except httpx.HTTPError as error:
            raise Retryable("the token endpoint did not respond") from error
        if is_busy(answer.status_code):
            reason = f"the token endpoint answered {answer.status_code}"
            raise Retryable(reason, pause_of(answer.headers))
        issued = _issued(answer)
        lifetime = _lifetime(issued.get("expires_in"))
        self._token = issued["access_token"]
        self._until = time.monotonic() + max(lifetime - _EARLY, lifetime / 2)


def _issued(answer: httpx.Response) -> Json:
    """Return what the token endpoint answered, with an ``access_token`` that fits in a header."""
    try:
        issued = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise _without_token(answer) from error
    found: Json = issued if isinstance(issued, dict) else {}
    token = found.get("access_token")
    if not isinstance(token, str) or not token or not (token.isascii() and token.isprintable()):
        raise _without_token(answer)
    return found


def _without_token(answer: httpx.Response) -> AccessRefused:
    return AccessRefused(f"the token endpoint answered {answer.status_code} without a token")


def _lifetime(stated: object) -> float:
    """Return a stated ``expires_in``, in seconds; the default for what is no time."""
    try:
        seconds = float(stated) if isinstance(stated, int | float | str) else 0.0
    except (ValueError, OverflowError):
        return _LIFETIME
    return seconds if 0 < seconds < math.inf else _LIFETIME


def _key_header(card: AgentCard | None) -> str:
    for scheme in card.security_schemes.values() if card is not None else ():
        key = scheme.api_key_security_scheme
        if scheme.HasField("api_key_security_scheme") and key.location == "header":
            return key.name
    return "X-API-Key"


def _token_url(own: OwnCard | None) -> str:
    for scheme in own.card.security_schemes.values() if own is not None else ():
        if own is not None and scheme.HasField("oauth2_security_scheme"):
            url = scheme.oauth2_security_scheme.flows.client_credentials.token_url
            if not is_same_origin(url, own.url):
                rule = "is not the agent's own origin; set token_url to allow it"
                raise AccessRefused(f"the card's token URL {url[:200]!r} {rule}")
            return url
    raise AccessRefused("there is no token URL in the credentials or the card; set token_url")
