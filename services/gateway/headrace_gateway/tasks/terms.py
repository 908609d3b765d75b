"""What an agent accepts: media types of message parts, and the run terms a caller may set."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import cast

from a2a.utils.errors import ContentTypeNotSupportedError

from headrace.directory import AgentCard
from headrace.model import parts
from headrace.model.events import Json, read_time, timestamp
from headrace.model.queues import PRIORITIES
from headrace.model.run import RunTerms
from headrace.model.subjects import NORMAL
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.auth.caller import Caller

LONGEST_START = 30 * 24 * 3600.0
"""Maximum of ``startWithin``, in seconds."""


LONGEST_DELAY = timedelta(days=365)
"""How far ahead ``startAt`` may be."""


def terms(caller: Caller, card: AgentCard, requested: Mapping[str, object], where: str) -> RunTerms:
    """Return the terms of a run of `card`'s agent for `caller`.

    `requested` may hold ``priority``, at most the priority that the caller's credentials allow, and
    ``startWithin``, in seconds, which can only shorten the agent's own limit, and ``startAt``, from
    which that counts if it is later than now. `where` is the prefix of these names in violations.

    Raises:
        Malformed: a value is invalid or exceeds what is allowed.
    """
    start = None if requested.get("startAt") is None else _start_at(requested["startAt"], where)
    start_by = None
    if (within := _start_within(card, requested, where)) is not None:
        start_by = timestamp((start or datetime.now(UTC)) + timedelta(seconds=within))
    start_at = None if start is None else timestamp(start)
    priority = _priority(caller, requested, where)
    return RunTerms(priority, start_at=start_at, start_by=start_by)


def _priority(caller: Caller, requested: Mapping[str, object], where: str) -> str:
    highest = caller.priority or NORMAL
    value = requested.get("priority", highest)
    allowed = PRIORITIES[PRIORITIES.index(highest) :]
    if value not in allowed:
        raise Malformed([Violation(f"{where}priority", f"must be one of {', '.join(allowed)}")])
    return str(value)


def _start_at(value: object, where: str) -> datetime | None:
    """Return the requested start time, if it is later than now."""
    now = datetime.now(UTC)
    start = read_time(value)
    rule = "must be a time with an offset from UTC, as 2030-01-31T09:00:00Z"
    # Compared first: times at the ends of the calendar can't be converted to UTC.
    if start is not None and start > now + LONGEST_DELAY:
        start, rule = None, f"must be at most {LONGEST_DELAY.days} days ahead"
    if start is None:
        raise Malformed([Violation(f"{where}startAt", rule)])
    return start.astimezone(UTC) if start > now else None


def _start_within(card: AgentCard, requested: Mapping[str, object], where: str) -> float | None:
    allowed, value = card.start_within, requested.get("startWithin")
    if value is None:
        return allowed
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < (within := cast("float", value)) <= LONGEST_START:
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

    Raises:
        ContentTypeNotSupportedError: the agent does not accept a part; the message names the part
            and the accepted types.
    """
    if (found := refused_part(message["parts"], card)) is not None:
        index, media_type = found
        raise ContentTypeNotSupportedError(
            f"agent {card.name} accepts {accepted_types(card)}; "
            f"message.parts[{index}] is {media_type}"
        )


def refused_part(found: Sequence[Json], card: AgentCard) -> tuple[int, str] | None:
    """Return the index and the media type of the first part that the agent does not accept.

    The modes are those of the card and of all its skills, because a request does not state which
    skill it is for. ``*/*`` accepts all types. ``image/*`` accepts all images, and so does
    ``image``, a form that example cards use. A card without modes accepts everything. Answers to
    the agent's own questions are always accepted: tool results, and data that names its interrupt.
    """
    modes = card.accepted_types
    if not modes:
        return None
    for index, part in enumerate(found):
        kind = next(kind for kind in _UNSTATED if kind in part)
        if kind == "data" and _is_answer(part):
            continue
        media_type = _without_parameters(part.get("mediaType") or _UNSTATED[kind])
        is_accepted = media_type in modes or any(fnmatchcase(media_type, mode) for mode in modes)
        if not is_accepted:
            return index, media_type
    return None


def accepted_types(card: AgentCard) -> str:
    """Return the media types that the agent accepts, for messages to people."""
    return ", ".join(sorted(card.accepted_types))


def _is_answer(part: Json) -> bool:
    return parts.event_type(part) == parts.TOOL_CALL or bool(parts.interrupt_id(part))


def _without_parameters(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
