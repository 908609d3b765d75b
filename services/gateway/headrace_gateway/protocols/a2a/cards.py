"""Agent cards: what an agent says of itself, with the fleet's URLs and capabilities."""

from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

from headrace.directory import AgentCard
from headrace.model.events import Json
from headrace_gateway.extensions import AGUI_MEDIA_TYPES, OFFERED
from headrace_gateway.server.auth.credentials_file import Known
from headrace_gateway.server.auth.schemes import security_of

GET_CARD = "GetAgentCard"
"""What reading a card is called where it is a call; A2A has only a page for it."""

_BINDINGS = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)


def agent_path(agent: str) -> str:
    """Return the base of the agent's URLs, behind the host."""
    return f"/v1/agents/{agent}"


def agent_card(card: AgentCard, base: str, grpc: str | None, known: Known | None) -> Json:
    """Return the A2A AgentCard of an agent.

    It is reached under `base`, scheme and host, and over gRPC at `grpc`, host and port, if any.
    `known` says which credentials callers need.
    """
    return {
        "name": card.name,
        "description": _description(card),
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


def _interfaces(agent: str, base: str, grpc: str | None) -> list[Json]:
    """Return where the agent is; gRPC's one address tells agents apart by the tenant."""
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
    # Required by the specification, and clients check.
    return card.description or f"The agent {card.name}."


def _output_modes(card: AgentCard) -> list[str]:
    """Return what the agent makes, and the form in which a gateway streams it on request."""
    return list(dict.fromkeys([*card.output_modes, AGUI_MEDIA_TYPES[0]]))


def _skill(card: AgentCard) -> Json:
    """Return the one skill of an agent that names none; a card needs one."""
    return {
        "id": card.name,
        "name": card.name,
        "description": _description(card),
        "tags": [card.name],
    }
