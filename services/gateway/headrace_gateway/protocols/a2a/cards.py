"""Agent cards: an agent's own description, with the fleet's URLs and capabilities."""

from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, UnsupportedOperationError
from starlette.requests import HTTPConnection

from headrace.directory import AgentCard
from headrace.model.events import Json
from headrace_gateway.call import Call
from headrace_gateway.extensions import AGUI_MEDIA_TYPES, OFFERED
from headrace_gateway.refusals import CredentialsMissing
from headrace_gateway.server.auth.credentials_file import KnownCredentials
from headrace_gateway.server.auth.schemes import security_of
from headrace_gateway.server.public_url import public_grpc, public_url
from headrace_gateway.services import Services
from headrace_gateway.signed_cards import SignedCard

GET_CARD = "GetAgentCard"
"""Operation name for reading a card in a call; A2A only has a page for it."""

_BINDINGS = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)


def agent_path(agent: str) -> str:
    """Return the base path of the agent's URLs."""
    return f"/v1/agents/{agent}"


def agent_card(
    card: AgentCard, base: str, grpc: str | None, known: KnownCredentials | None
) -> Json:
    """Return the A2A AgentCard of an agent.

    Args:
        card: the agent's own description.
        base: scheme and host of its URLs.
        grpc: host and port of the gRPC server, if any.
        known: the credentials that callers need.
    """
    return {
        "name": card.title,
        "description": _description(card),
        **shown(card),
        "supportedInterfaces": _interfaces(card.name, base, grpc),
        "version": card.version,
        "capabilities": {
            "streaming": card.streaming,
            "pushNotifications": card.push_notifications,
            "extendedAgentCard": card.extended is not None,
            "extensions": [*OFFERED, *card.extensions],
        },
        **security_of(card, known),
        "defaultInputModes": card.input_modes,
        "defaultOutputModes": _output_modes(card),
        "skills": card.skills or [_skill(card)],
    }


def shown(card: AgentCard) -> Json:
    """Return the fields that user interfaces show besides the agent's name."""
    fields: Json = {"iconUrl": card.icon_url, "documentationUrl": card.documentation_url}
    if card.provider is not None:
        fields["provider"] = card.provider.model_dump()
    return {key: value for key, value in fields.items() if value}


def _interfaces(agent: str, base: str, grpc: str | None) -> list[Json]:
    """Return the agent's interfaces; all agents share one gRPC address and differ by tenant."""
    interfaces = [_interface(base + agent_path(agent), binding) for binding in _BINDINGS]
    if grpc is not None:
        interfaces.append(_interface(grpc, TransportProtocol.GRPC) | {"tenant": agent})
    return interfaces


def _interface(url: str, binding: TransportProtocol) -> Json:
    return {
        "url": url,
        "protocolBinding": binding.value,
        "protocolVersion": PROTOCOL_VERSION_1_0,
    }


def _description(card: AgentCard) -> str:
    # The specification requires a description, and clients check it.
    return card.description or f"The agent {card.title}."


def _output_modes(card: AgentCard) -> list[str]:
    """Return the agent's output modes, plus JSON and the AG-UI stream that gateways offer."""
    return list(dict.fromkeys([*card.output_modes, "application/json", AGUI_MEDIA_TYPES[0]]))


def _skill(card: AgentCard) -> Json:
    """Return the default skill of an agent without skills; a card needs at least one."""
    return {
        "id": card.name,
        "name": card.title,
        "description": _description(card),
        "tags": [card.name],
    }


async def signed_card(
    services: Services, connection: HTTPConnection, card: AgentCard
) -> SignedCard:
    """Return the agent's signed card, with addresses that the client of `connection` reaches."""
    base, content = _reached_by(services, connection, card)
    await services.cards.ready()
    what = f"{card.name} {card.pinned_version}" if card.pinned else card.name
    return services.cards.sign(what, base, content)


def _reached_by(
    services: Services, connection: HTTPConnection, card: AgentCard
) -> tuple[str, Json]:
    """Return the URL at which a client reaches the fleet, and the agent's card under it."""
    base = public_url(connection, services.settings)
    grpc = public_grpc(connection, services.settings)
    return base, agent_card(card, base, grpc, services.callers.known)


_REPLACED = ("description", "version", "provider", "documentationUrl", "iconUrl")


async def extended_card(services: Services, call: Call, params: object) -> Json:  # noqa: ARG001 - the operation has no parameters
    """Return the agent's extended card, signed.

    Raises:
        UnsupportedOperationError: the agent does not declare an extended card.
        ExtendedAgentCardNotConfiguredError: the extended card is empty, or callers cannot be
            identified because HEADRACE_CREDENTIALS is not set.
        CredentialsMissing: the caller is anonymous.
    """
    extended = call.card.extended
    if extended is None:
        raise UnsupportedOperationError(f"agent {call.agent} has no extended card")
    if not extended or services.callers.known is None:
        raise ExtendedAgentCardNotConfiguredError("no extended card is configured here")
    if not call.caller.identified:
        raise CredentialsMissing("the extended card is for callers with credentials")
    base, card = _reached_by(services, call.connection, call.card)
    await services.cards.ready()
    return services.cards.sign(f"{call.agent} extended", base, _extended(card, extended)).card


def _extended(card: Json, extended: Json) -> Json:
    """Return `card` with the additions of `extended`, which replace skills of the same id."""
    skills = {skill.get("id"): skill for skill in [*card["skills"], *extended.get("skills", [])]}
    replaced = {name: extended[name] for name in _REPLACED if name in extended}
    return card | replaced | {"skills": list(skills.values())}
