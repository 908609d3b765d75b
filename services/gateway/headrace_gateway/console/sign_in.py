"""How people sign in to the console: what its pages need to know of the credentials file."""

from urllib.parse import urlsplit

from headrace.model.events import Json
from headrace_gateway.server.auth.credentials_file import KnownCredentials, TokenIssuer

SIGN_IN_PATH = "sign-in.json"
"""Path below ``/console/``."""


def sign_in_of(known: KnownCredentials | None) -> Json:
    """Return what the console's sign-in offers; everybody may read it.

    ``credentials`` says whether the gateway knows any. ``issuer`` is there if people sign in at the
    token issuer, by the authorization code flow with PKCE (RFC 7636).
    """
    found: Json = {"credentials": known is not None}
    if (issuer := _issuer_of_people(known)) is not None and issuer.sign_in is not None:
        sign_in = issuer.sign_in
        found["issuer"] = {
            "url": issuer.issuer,
            "clientId": sign_in.console_client,
            "authorizationUrl": sign_in.authorization_url,
            "tokenUrl": sign_in.token_url,
            "endSessionUrl": sign_in.end_session_url,
            "scopes": list(sign_in.scopes),
        }
    return found


def token_origin(known: KnownCredentials | None) -> str:
    """Return the origin at which the console gets its tokens; empty if there is none."""
    issuer = _issuer_of_people(known)
    if issuer is None or issuer.sign_in is None:
        return ""
    parts = urlsplit(issuer.sign_in.token_url)
    return f"{parts.scheme}://{parts.netloc}"


def _issuer_of_people(known: KnownCredentials | None) -> TokenIssuer | None:
    issuer = None if known is None else known.jwt
    if issuer is None or issuer.sign_in is None or issuer.sign_in.console_client is None:
        return None
    return issuer
