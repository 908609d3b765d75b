"""What an agent takes: media types of a message's parts, and the terms that a caller may set."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import cast

from a2a.utils.errors import ContentTypeNotSupportedError

from headrace.directory import AgentCard
from headrace.model import parts
from headrace.model.events import PRIORITY, START_BY, Json
from headrace.model.queues import PRIORITIES
from headrace.model.subjects import NORMAL
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.auth.caller import Caller

LONGEST_START = 30 * 24 * 3600.0
"""Seconds within which a client may want its run to be begun, at most."""


def terms(caller: Caller, card: AgentCard, wished: Mapping[str, object], where: str) -> Json:
    """Return the terms of a run that `caller` asks `card`'s agent for, as metadata of its input.

    `wished` may hold ``priority``, of which the caller's credentials set the highest, and
    ``startWithin``, in seconds, which can only shorten what the agent allows. `where` stands before
    their names in what is told of faults.

    Raises:
        Malformed: a wish is none, or is for more than may be wished.
    """
    found: Json = {}
    if (within := _start_within(card, wished, where)) is not None:
        start_by = datetime.now(UTC) + timedelta(seconds=within)
        found[START_BY] = start_by.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if (priority := _priority(caller, wished, where)) != NORMAL:
        found[PRIORITY] = priority
    return found


def _priority(caller: Caller, wished: Mapping[str, object], where: str) -> str:
    highest = caller.priority or NORMAL
    wish = wished.get("priority", highest)
    allowed = PRIORITIES[PRIORITIES.index(highest) :]
    if wish not in allowed:
        raise Malformed([Violation(f"{where}priority", f"must be one of {', '.join(allowed)}")])
    return str(wish)


def _start_within(card: AgentCard, wished: Mapping[str, object], where: str) -> float | None:
    allowed, wish = card.start_within, wished.get("startWithin")
    if wish is None:
        return allowed
    is_number = isinstance(wish, int | float) and not isinstance(wish, bool)
    if not is_number or not 0 < (within := cast("float", wish)) <= LONGEST_START:
        rule = f"must be a number of seconds, more than 0 and at most {LONGEST_START:g}"
        raise Malformed([Violation(f"{where}startWithin", rule)])
    return within if allowed is None else min(within, allowed)


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
    results of tools, and data that names its interrupt.

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
