"""How a client is to say who it is, as agent cards and challenges word it."""

from headrace.model.agent_card import AgentCard
from headrace.model.events import Json
from headrace_gateway.server.auth.credentials_file import KnownCredentials

CHALLENGE = 'Bearer realm="headrace"'
"""What a refused request is told to send (RFC 6750); an API key has no scheme of its own."""

REFUSED = f'{CHALLENGE}, error="invalid_token"'
"""The same, where credentials came that are nobody's."""


def security_of(card: AgentCard, known: KnownCredentials | None) -> Json:
    """Return ``securitySchemes`` and ``securityRequirements`` of an agent's card.

    What the agent says of itself is said instead of what the gateway asks of everybody.
    """
    said = card.security
    if not said:
        return security(known)
    described: Json = {
        "securitySchemes": {name: _scheme(one) for name, one in said.get("schemes", {}).items()}
    }
    if required := said.get("require"):
        described["securityRequirements"] = [{"schemes": {name: {}}} for name in required]
    return described


def _scheme(said: Json) -> Json:
    if said["type"] == "apiKey":
        return {"apiKeySecurityScheme": {"location": "header", "name": said.get("name", "")}}
    return {"httpAuthSecurityScheme": {"scheme": said.get("scheme", "").capitalize()}}


def security(known: KnownCredentials | None) -> Json:
    """Return a card's ``securitySchemes`` and ``securityRequirements``; nothing where all may call.

    Either scheme will do.
    """
    if known is None:
        return {}
    bearer: Json = {"scheme": "Bearer"}
    if known.jwt is not None:
        bearer["bearerFormat"] = "JWT"
    schemes: Json = {"bearer": {"httpAuthSecurityScheme": bearer}}
    if known.credential:
        key = {"location": "header", "name": "X-API-Key"}
        schemes["apiKey"] = {"apiKeySecurityScheme": key}
    described: Json = {"securitySchemes": schemes}
    if known.required:
        described["securityRequirements"] = [{"schemes": {name: {}}} for name in schemes]
    return described
