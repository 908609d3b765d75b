"""Whether an agent takes what a message brings: parts against the modes that its card declares."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from a2a.utils.errors import ContentTypeNotSupportedError

from headrace.directory import AgentCard
from headrace.model import parts
from headrace.model.events import Json

_UNSTATED = {
    "text": "text/plain",
    "data": "application/json",
    "raw": "application/octet-stream",
    "url": "application/octet-stream",
}
"""What a part is that states no media type, by its kind."""


def check_parts(message: Json, card: AgentCard) -> None:
    """Return if the agent takes every part of `message`.

    Modes are those of the card and of any of its skills: a request does not say which skill it is
    for. ``*/*`` takes all, ``image/*`` all images, and so does ``image``, as cards of examples have
    it. No modes at all declare nothing: all is taken, as are answers to the agent's own questions:
    results of tools, and what names its interrupt.

    Raises:
        ContentTypeNotSupportedError: it does not; says which part, and what would be taken.
    """
    modes = _modes(card)
    for index, part in enumerate(message["parts"]):
        kind = next(kind for kind in _UNSTATED if kind in part)
        is_answer = parts.event_type(part) == parts.TOOL_CALL or parts.interrupt_id(part)
        if kind == "data" and is_answer:
            continue
        media_type = _essence(part.get("mediaType") or _UNSTATED[kind])
        if modes and not any(fnmatchcase(media_type, mode) for mode in modes):
            raise ContentTypeNotSupportedError(
                f"agent {card.name} takes {', '.join(sorted(modes))}; "
                f"message.parts[{index}] is {media_type}"
            )


def _modes(card: AgentCard) -> set[str]:
    skills: Iterable[list[str]] = (skill.get("inputModes", []) for skill in card.skills)
    modes = {_essence(mode) for modes in (card.input_modes, *skills) for mode in modes}
    return {mode if "/" in mode else f"{mode}/*" for mode in modes}


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
