"""Conversion of an agent's own card into a declaration."""

from headrace.model.agent_card import Provider
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.subjects import check_agent_name
from headrace.sdk.errors import Misdeclared


def taken_over(card: Json) -> Json:
    """Return the keywords of `agent` that `card` provides, an A2A AgentCard in ProtoJSON."""
    taken = {
        "display_name": card.get("name"),
        "description": card.get("description"),
        "version": card.get("version"),
        "icon_url": _url(card.get("iconUrl")),
        "documentation_url": _url(card.get("documentationUrl")),
        "provider": _provider(card.get("provider", {})),
        "skills": [_skill(skill) for skill in card.get("skills", [])],
        "input_modes": card.get("defaultInputModes"),
        "output_modes": card.get("defaultOutputModes"),
    }
    return {key: value for key, value in taken.items() if value}


def _provider(section: Json) -> Provider | None:
    name, url = section.get("organization"), _url(section.get("url"))
    return Provider(organization=name, url=url) if name and url else None


def _url(url: str | None) -> str:
    """Return an HTTP URL unchanged, anything else as an empty string."""
    return url if url and url.startswith(("http://", "https://")) else ""


def _skill(skill: Json) -> Json:
    kept = ("id", "name", "description", "tags", "examples", "inputModes", "outputModes")
    return {key: skill[key] for key in kept if key in skill}


def name_of(card: Json) -> str:
    """Return an agent name made from the card's name.

    Raises:
        Misdeclared: The card's name can't be converted.
    """
    name = "-".join("".join(c if c.isalnum() else " " for c in card.get("name", "")).split())
    try:
        return check_agent_name(name)
    except InvalidName:
        raise Misdeclared(f"{card.get('name')!r} is not a valid agent name; pass name=") from None
