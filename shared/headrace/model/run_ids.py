"""Ids of what a run emits, unique in its conversation.

A worker mints ids that contain a digest of their run. Agents, models and workers in other languages
have ids of their own, which may recur: many models number their calls from 1 in each turn. Clients
that keep a conversation by id receive such an id with the run's digest appended (`unique_id`), and
send it back. `own_id` returns the agent's, without looking anything up: the suffix has a check of
the id that it belongs to. All of this is derived from the log, so ids are the same on any gateway.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b

from headrace.model.events import Json

_MINTED = re.compile(r"[a-z]+-[0-9a-f]{10}-[0-9]+")
_GIVEN = re.compile(
    r"(?P<own>.+)_(?P<digest>[0-9a-f]{10})(?P<check>[0-9a-f]{4})(?:_(?P<number>[1-9][0-9]{0,5}))?",
    re.DOTALL,
)


def run_digest(task: str, run: int) -> str:
    """Return ten hex digits that stand for a run in its ids."""
    return blake2b(f"{task}/{run}".encode(), digest_size=5).hexdigest()


def minted_id(kind: str, digest: str, number: int) -> str:
    """Return the id of the output of `kind` with `number`, from 0, in the run with `digest`."""
    return f"{kind}-{digest}-{number}"


def is_minted(given: str) -> bool:
    """Return whether the id has the form of those that workers mint."""
    return _MINTED.fullmatch(given) is not None


def unique_id(own: str, digest: str, number: int = 1) -> str:
    """Return the id that clients receive for the agent's id `own`.

    Args:
        own: the agent's id; one that the run's worker minted stays as it is.
        digest: that of the run (`run_digest`).
        number: 1 where the run has the id for the first time, 2 for the second time.
    """
    if number == 1 and f"-{digest}-" in own:
        return own
    suffix = f"_{number}" if number > 1 else ""
    return f"{own}_{digest}{_check(own, digest, number)}{suffix}"


def own_id(given: str) -> str:
    """Return the agent's id for the id that a client has received; another id unchanged."""
    found = _read(given)
    return given if found is None else found["own"]


def in_order_of_calls(given: Sequence[str]) -> list[int]:
    """Return the places of clients' ids, with those of one run's calls by one id in order.

    Agents have one id for these, so only their order tells which call is which. Others stay where
    they are.
    """
    found = [_read(one) for one in given]
    places: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(found):
        if one is not None:
            places.setdefault((one["own"], one["digest"]), []).append(at)
    order = list(range(len(given)))
    for alike in places.values():
        for at, taken in zip(alike, sorted(alike, key=lambda at: _number(found[at])), strict=True):
            order[at] = taken
    return order


def with_own_calls(messages: Sequence[Json]) -> list[Json]:
    """Return AG-UI messages of a client with the agent's ids of its tool calls."""
    return [_with_own_calls(message) for message in messages]


def _with_own_calls(message: Json) -> Json:
    if calls := message.get("toolCalls"):
        return {**message, "toolCalls": [{**call, "id": own_id(call["id"])} for call in calls]}
    if call := message.get("toolCallId"):
        return {**message, "toolCallId": own_id(call)}
    return message


def _read(given: str) -> re.Match[str] | None:
    found = _GIVEN.fullmatch(given)
    if found is None:
        return None
    number = _number(found)
    is_ours = found["check"] == _check(found["own"], found["digest"], number)
    return found if is_ours else None


def _number(found: re.Match[str] | None) -> int:
    return 1 if found is None else int(found["number"] or 1)


def _check(own: str, digest: str, number: int) -> str:
    whole = f"{own}_{digest}_{number}".encode(errors="surrogatepass")
    return blake2b(whole, digest_size=2).hexdigest()
