"""What an agent accepts: media types of message parts, and the run terms a caller may set."""

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
from headrace.model.timestamp import timestamp
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.auth.caller import Caller

LONGEST_START = 30 * 24 * 3600.0
"""Maximum of ``startWithin``, in seconds."""


def terms(caller: Caller, card: AgentCard, wished: Mapping[str, object], where: str) -> Json:
    """Return the terms of a run of `card`'s agent for `caller`, as metadata of its input.

    `wished` may hold ``priority``, at most the priority that the caller's credentials allow, and
    ``startWithin``, in seconds, which can only shorten the agent's own limit. `where` is the prefix
    of these names in violations.

    Raises:
        Malformed: a value is invalid or exceeds what is allowed.
    """
    found: Json = {}
    if (within := _start_within(card, wished, where)) is not None:
        start_by = datetime.now(UTC) + timedelta(seconds=within)
        found[START_BY] = timestamp(start_by)
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
"""The media type of a part that states none, by the part's kind."""


def check_parts(message: Json, card: AgentCard) -> None:
    """Check that the agent accepts every part of `message`.

    The modes are those of the card and of all its skills, because a request does not say which
    skill it is for. ``*/*`` accepts all types. ``image/*`` accepts all images, and so does
    ``image``, a form that example cards use. A card without modes accepts everything. Answers to
    the agent's own questions are always accepted: tool results, and data that names its interrupt.

    Raises:
        ContentTypeNotSupportedError: the agent does not accept a part; the message names the part
            and the accepted types.
    """
    modes = _modes(card)
    if not modes:
        return
    for index, part in enumerate(message["parts"]):
        kind = next(kind for kind in _UNSTATED if kind in part)
        if kind == "data" and _is_answer(part):
            continue
        media_type = _essence(part.get("mediaType") or _UNSTATED[kind])
        is_accepted = media_type in modes or any(fnmatchcase(media_type, mode) for mode in modes)
        if not is_accepted:
            raise ContentTypeNotSupportedError(
                f"agent {card.name} takes {', '.join(sorted(modes))}; "
                f"message.parts[{index}] is {media_type}"
            )


def _is_answer(part: Json) -> bool:
    return parts.event_type(part) == parts.TOOL_CALL or bool(parts.interrupt_id(part))


def _modes(card: AgentCard) -> set[str]:
    skills: Iterable[list[str]] = (skill.get("inputModes", []) for skill in card.skills)
    modes = {_essence(mode) for modes in (card.input_modes, *skills) for mode in modes}
    return {mode if "/" in mode else f"{mode}/*" for mode in modes}


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
