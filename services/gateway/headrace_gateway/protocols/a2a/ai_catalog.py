"""The AI Catalog (specification 0.9): all agents of a fleet, each by the address of its card."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from headrace.directory import AgentCard
from headrace.model.events import Json
from headrace_gateway.protocols.a2a.cards import agent_path

CATALOG_PATH = "/.well-known/ai-catalog.json"
CATALOG_TYPE = "application/ai-catalog+json"

_CARD_TYPE = "application/a2a-agent-card+json"


def ai_catalog(base: str, cards: Iterable[AgentCard], host: str) -> Json:
    """Return the catalog of the agents with these cards.

    An entry repeats nothing that is in a card, as the specification has it.

    Args:
        base: Scheme and host of the agents' URLs.
        cards: The agents' cards.
        host: What the operator is called; empty: as the host is.
    """
    name = urlsplit(base).hostname or ""
    return {
        "specVersion": "0.9",
        "host": {"displayName": host or name, "identifier": name},
        "entries": [_entry(base, name, card) for card in cards],
    }


def _entry(base: str, host: str, card: AgentCard) -> Json:
    tags = {tag for skill in card.skills for tag in skill.get("tags") or ()}
    return {
        "identifier": f"urn:air:{host}:agent:{card.name}",
        "type": _CARD_TYPE,
        "url": f"{base}{agent_path(card.name)}/.well-known/agent-card.json",
        **({"tags": sorted(tags)} if tags else {}),
    }
