"""Where an issuer's tokens come from, in the words of A2A's security schemes."""

from collections.abc import Callable, Mapping

from headrace.model.events import Json
from headrace_gateway.server.auth.credentials_file import Flow, KnownCredentials, SignIn
from headrace_gateway.server.auth.issuer_document import discovery_url


def issuer_schemes(known: KnownCredentials | None) -> dict[str, Json]:
    """Return the schemes under which callers get a token of the fleet's issuer, by name."""
    issuer = None if known is None else known.jwt
    if issuer is None or issuer.sign_in is None:
        return {}
    sign_in = issuer.sign_in
    # One scheme each, because a scheme of A2A has one flow.
    found = {_NAMES[flow]: _oauth2(sign_in, flow) for flow in sign_in.flows}
    if sign_in.discovery is not None:
        scheme = {"openIdConnectUrl": discovery_url(issuer.issuer)}
        found["openIdConnect"] = {"openIdConnectSecurityScheme": scheme}
    return found


def _oauth2(sign_in: SignIn, flow: Flow) -> Json:
    return {"oauth2SecurityScheme": {"flows": _FLOWS[flow](sign_in)}}


def _of_people(sign_in: SignIn) -> Json:
    flow = {
        "authorizationUrl": sign_in.authorization_url,
        "tokenUrl": sign_in.token_url,
        "scopes": dict(sign_in.scopes),
        "pkceRequired": True,
    }
    return {"authorizationCode": flow}


def _of_programs(sign_in: SignIn) -> Json:
    flow = {"tokenUrl": sign_in.token_url, "scopes": dict(sign_in.scopes)}
    return {"clientCredentials": flow}


_NAMES: Mapping[Flow, str] = {
    "authorization_code": "oauth2",
    "client_credentials": "clientCredentials",
}

_FLOWS: Mapping[Flow, Callable[[SignIn], Json]] = {
    "authorization_code": _of_people,
    "client_credentials": _of_programs,
}
