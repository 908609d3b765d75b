"""On which terms a run waits for a worker: how urgent it is, and until when.

They are metadata of the input, so whoever asks for its run again finds them in the log.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast

from headrace.directory import AgentCard
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
