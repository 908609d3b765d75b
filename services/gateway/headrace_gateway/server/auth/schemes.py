"""Authentication schemes of agents: enforced by the gateway, and described in agent cards.

Both use the same `Schemes`, so that a card describes what the gateway does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.model.agent_card import AgentCard, SecurityScheme
from headrace.model.events import Json
from headrace_gateway.refusals import Violation
from headrace_gateway.server.auth.credentials_file import KnownCredentials
from headrace_gateway.server.auth.issuer_schemes import issuer_schemes

CHALLENGE = 'Bearer realm="headrace"'
"""``WWW-Authenticate`` of a refused request (RFC 6750); API keys have no scheme of their own."""

REFUSED = f'{CHALLENGE}, error="invalid_token"'
"""The same for credentials that are unknown or invalid."""

_API_KEY = "apiKey"
_SCOPES = ("scope", "scp")
"""Claims in which issuers put a token's scopes (RFC 9068, 2.2.3)."""
_SEND = "SendMessage"
"""The operation whose roles a card lists: those that a caller needs to send messages."""

BEARER = SecurityScheme(type="http", scheme="bearer")
"""A token in ``Authorization``, or in a WebSocket's subprotocols (browsers)."""

KEY = SecurityScheme(type="apiKey", name="X-API-Key")
"""An API key, if an agent names no other header."""

CREDENTIAL_HEADERS = (b"authorization", KEY.name.lower().encode())
"""Headers in which every gateway looks for credentials."""


def repeated_credentials(
    names: Sequence[bytes], of: Iterable[bytes] = CREDENTIAL_HEADERS
) -> Violation | None:
    """Return the first header `of` these that a request repeats; None: it repeats none.

    A proxy may have checked another one than the gateway would. `names` are those of all headers of
    the request; all names are in lower case.
    """
    for name in of:
        if names.count(name) > 1:
            return Violation(name.decode(), "must be sent at most once (RFC 9110, section 5.3)")
    return None


@dataclass(frozen=True, slots=True)
class Schemes:
    """The authentication schemes of one agent."""

    card: AgentCard
    """The agent's card."""
    declared: Mapping[str, SecurityScheme]
    """The schemes in the agent's card, by name."""
    accepted: tuple[str, ...]
    """The names of the schemes that the agent accepts."""
    are_required: bool
    """Whether credentials are required."""

    @property
    def wanted(self) -> str:
        """Description of the accepted schemes, for error messages."""
        known = [self.declared[name] for name in self.accepted if name in self.declared]
        return " or ".join(map(_worded, known)) or ", ".join(self.accepted)


def schemes_of(card: AgentCard, known: KnownCredentials | None) -> Schemes:
    """Return an agent's schemes: its own, or the gateway's if it declares none."""
    own = card.security
    declared = own.schemes or _of_all(known)
    accepted = tuple(own.require or declared)
    asks = bool(own.require) or (known is not None and known.required)
    return Schemes(card, declared, accepted, asks)


def _of_all(known: KnownCredentials | None) -> Mapping[str, SecurityScheme]:
    if known is None:
        return {}
    return {"bearer": BEARER} | ({"apiKey": KEY} if known.credential else {})


def key_headers(cards: Iterable[AgentCard]) -> set[str]:
    """Return the headers in which agents accept API keys, in lower case."""
    schemes = [scheme for card in cards for scheme in card.security.schemes.values()]
    return {scheme.name.lower() for scheme in schemes if scheme.type == _API_KEY}


def security_of(card: AgentCard, known: KnownCredentials | None) -> Json:
    """Return ``securitySchemes`` and ``securityRequirements`` of an agent's card.

    Each requirement is sufficient on its own. If callers need a role, each requirement names one
    that permits sending messages. Tokens of an issuer are bearer tokens; the schemes of OAuth 2
    and OpenID Connect say where to get one.
    """
    schemes = schemes_of(card, known)
    if not schemes.declared:
        return {}
    issued = {} if card.security.schemes else issuer_schemes(known)
    certificate: Json = {} if known is None or not known.mutual_tls else {"mutualTls": {}}
    described: Json = {
        "securitySchemes": {
            **{name: _described(scheme, known) for name, scheme in schemes.declared.items()},
            **issued,
            **{name: {"mtlsSecurityScheme": {}} for name in certificate},
        }
    }
    if schemes.are_required:
        needs: list[Json] = [
            {name: {"list": [role]} if role else {}}
            for name in schemes.accepted
            for role in _roles(card.name, schemes.declared.get(name), known) or [""]
        ]
        needs += [
            {name: {"list": [scope]} if scope else {}}
            for name in issued
            for scope in _scopes(card.name, known) or [""]
        ]
        described["securityRequirements"] = [{"schemes": one | certificate} for one in needs]
    return described


def _roles(agent: str, scheme: SecurityScheme | None, known: KnownCredentials | None) -> list[str]:
    """Return the roles of which a caller needs one; none if some callers need no role."""
    if known is None or scheme is None or any(one.roles is None for one in known.credential):
        return []
    takes_tokens = known.jwt is not None and scheme.type != _API_KEY
    if takes_tokens and known.jwt is not None and known.jwt.roles_claim is None:
        return []
    return [role.name for role in known.role if role.grant().covers(agent, _SEND)]


def _scopes(agent: str, known: KnownCredentials | None) -> list[str]:
    """Return the scopes of which an issuer's token needs one: roles, where scopes name them."""
    issuer = None if known is None else known.jwt
    if issuer is None or issuer.roles_claim not in _SCOPES:
        return []
    return _roles(agent, BEARER, known)


def _described(scheme: SecurityScheme, known: KnownCredentials | None) -> Json:
    if scheme.type == _API_KEY:
        return {"apiKeySecurityScheme": {"location": "header", "name": scheme.name}}
    described: Json = {"scheme": "Bearer"}
    if known is not None and known.jwt is not None and not known.credential:
        described["bearerFormat"] = "JWT"
    return {"httpAuthSecurityScheme": described}


def _worded(scheme: SecurityScheme) -> str:
    return f"an API key in {scheme.name}" if scheme.type == _API_KEY else "a bearer token"
