"""The discovery document of an issuer (OpenID Connect Discovery 1.0, section 3), from a file."""

import json
from collections.abc import Mapping
from pathlib import Path

from headrace_gateway.server.auth.credentials_file import (
    CredentialsUnreadable,
    KnownCredentials,
    SignIn,
    TokenIssuer,
    is_issuers_url,
)

_URLS: Mapping[str, str] = {
    "authorization_url": "authorization_endpoint",
    "token_url": "token_endpoint",
    "end_session_url": "end_session_endpoint",
}
"""Members of the document, by the setting that takes precedence over each."""


def discovery_url(issuer: str) -> str:
    """Return the URL at which an issuer serves its discovery document."""
    return f"{issuer.rstrip('/')}/.well-known/openid-configuration"


def with_discovery(known: KnownCredentials, folder: Path) -> KnownCredentials:
    """Return `known` with the URLs of the issuer's discovery document, if it names one.

    Args:
        known: The content of the credentials file.
        folder: The folder of that file.

    Raises:
        CredentialsUnreadable: The document is missing or invalid, is another issuer's, or lacks a
            URL that is needed.
    """
    issuer = known.jwt
    if issuer is None or issuer.sign_in is None or issuer.sign_in.discovery is None:
        return known
    path = folder / issuer.sign_in.discovery
    try:
        sign_in = _completed(issuer, issuer.sign_in, json.loads(path.read_text()))
    except (OSError, ValueError, RecursionError) as error:
        raise CredentialsUnreadable(f"{path}: {error}") from None
    return known.model_copy(update={"jwt": issuer.model_copy(update={"sign_in": sign_in})})


def _completed(issuer: TokenIssuer, sign_in: SignIn, document: object) -> SignIn:
    """Return `sign_in` with those URLs of the document that it does not name itself."""
    if not isinstance(document, dict) or document.get("issuer") != issuer.issuer:
        raise ValueError(f"it is not a discovery document of the issuer {issuer.issuer!r}")
    unnamed = {name: one for name, one in _URLS.items() if not getattr(sign_in, name)}
    urls = {name: document[member] for name, member in unnamed.items() if member in document}
    for name, url in urls.items():
        if not isinstance(url, str) or not is_issuers_url(url):
            raise ValueError(f"{_URLS[name]} must be an https URL; http is for this machine only")
    found = sign_in.model_copy(update=urls)
    if found.missing:
        raise ValueError(f"it contains no {_URLS[found.missing]}")
    return found
