"""Conversion of an agent's own card into a declaration."""

from headrace.adapters.declaration import ANY_MEDIA, Declaration, declare_card
from headrace.model.agent_card import Provider
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.subjects import check_agent_name
from headrace.sdk.card import Card
from headrace.sdk.errors import Misdeclared


def declare_as(declared: Declaration, own: Json) -> None:
    """Complete a declaration with the agent's own card, an A2A AgentCard in ProtoJSON.

    Raises:
        Misdeclared: It has a `clean_up`, which is the adapter's.
    """
    if "clean_up" in declared:
        raise Misdeclared(
            "leave out clean_up: the adapter cancels the agent's own task when the task ends"
        )
    if description := own.get("description"):
        declared.setdefault("description", description)
    if version := own.get("version"):
        declared.setdefault("version", version)
    declare_card(declared, _card(own))


def _card(own: Json) -> Card:
    return Card(
        display_name=own.get("name", ""),
        icon_url=_url(own.get("iconUrl")),
        documentation_url=_url(own.get("documentationUrl")),
        provider=_provider(own.get("provider", {})),
        skills=[_skill(skill) for skill in own.get("skills", [])],
        input_modes=own.get("defaultInputModes") or ANY_MEDIA,
        output_modes=own.get("defaultOutputModes") or (),
    )


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
