"""Agent cards: what an agent says of itself, with the fleet's URLs and capabilities."""

from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol

from headrace.directory import AgentCard
from headrace.events import Json
from headrace_gateway.a2a.extensions import OFFERED
from headrace_gateway.credentials.file import Known
from headrace_gateway.credentials.schemes import security
from headrace_gateway.hector.asking import MEDIA_TYPES

_BINDINGS = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)


def agent_path(agent: str) -> str:
    """Return the base of the agent's URLs, behind the host."""
    return f"/v1/agents/{agent}"


def agent_card(card: AgentCard, base: str, known: Known | None) -> Json:
    """Return the A2A AgentCard of an agent that is reached under `base`, scheme and host.

    `known` says which credentials callers need.
    """
    url = base + agent_path(card.name)
    return {
        "name": card.name,
        "description": _description(card),
        "supportedInterfaces": [
            {
                "url": url,
                "protocolBinding": binding.value,
                "protocolVersion": PROTOCOL_VERSION_1_0,
            }
            for binding in _BINDINGS
        ],
        "version": card.version,
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extendedAgentCard": False,
            "extensions": list(OFFERED),
        },
        **security(known),
        "defaultInputModes": card.input_modes,
        "defaultOutputModes": _output_modes(card),
        "skills": card.skills or [_skill(card)],
    }


def _description(card: AgentCard) -> str:
    # Required by the specification, and clients check.
    return card.description or f"The agent {card.name}."


def _output_modes(card: AgentCard) -> list[str]:
    """Return what the agent makes, and the form in which a gateway streams it on request."""
    return list(dict.fromkeys([*card.output_modes, MEDIA_TYPES[0]]))


def _skill(card: AgentCard) -> Json:
    """Return the one skill of an agent that names none; a card needs one."""
    return {
        "id": card.name,
        "name": card.name,
        "description": _description(card),
        "tags": [card.name],
    }
