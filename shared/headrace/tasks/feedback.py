"""What people think of a task that has ended.

Nothing may follow a log's end, so feedback is the end once more, unchanged, with a header. Every
reader of the log sees the same task as before; the log's last message has the current feedback, and
those before it what was replaced. It is exported, mirrored and deleted with the log.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import orjson

from headrace.jetstream.connection import Bus
from headrace.log import LogWriter
from headrace.log.read import from_leader, headers_of, last_raw
from headrace.model import json_text
from headrace.model.entry import FEEDBACK, Entry
from headrace.model.errors import BusUnavailable, HeadraceError, LogFull, TaskUnknown
from headrace.model.events import Json
from headrace.model.task import TaskKey

type Rating = Literal["up", "down"]

RATINGS: tuple[str, ...] = get_args(Rating.__value__)

LONGEST_COMMENT = 1000
"""Characters of a comment: each may take 12 bytes of a header."""

_PAUSE = 0.01
"""Seconds by which the pause before another try grows, at most."""
_ROUNDS = 30
"""Maximum number of appends while others give feedback, too."""


class NotOver(HeadraceError):
    """The task has not ended, so that there is nothing to give feedback on."""

    code = "not_over"


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a task's owner thinks of it."""

    rating: Rating | None
    """None: it was withdrawn."""
    comment: str = ""
    time: str = ""
    """When it was stored, RFC 3339; empty before."""

    @property
    def header(self) -> str:
        """The value of the header `FEEDBACK`: ASCII JSON."""
        return json.dumps({"rating": self.rating, "comment": self.comment}, separators=(",", ":"))

    def shown(self) -> Json:
        """Return it as clients get it."""
        return {"rating": self.rating, "comment": self.comment, "time": self.time}

    def is_like(self, other: "Feedback | None") -> bool:
        """Return whether it says what `other` says; none says what a withdrawn one says."""
        said = (other.rating, other.comment) if other else (None, "")
        return (self.rating, self.comment) == said


def feedback_in(headers: Mapping[str, str] | None, time: str) -> Feedback | None:
    """Return the feedback in a message of a log, stored at `time`. None: it has none.

    Workers may write what they like there, so anything else than feedback is none.
    """
    value = (headers or {}).get(FEEDBACK)
    if value is None:
        return None
    try:
        said: Any = json_text.decode_foreign(value.encode())
    except orjson.JSONDecodeError:
        return None
    if not isinstance(said, dict):
        return None
    rating, comment = said.get("rating"), said.get("comment", "")
    if (rating is not None and rating not in RATINGS) or not isinstance(comment, str):
        return None
    return Feedback(rating, comment[:LONGEST_COMMENT], time)


async def feedback_on(bus: Bus, key: TaskKey) -> Feedback | None:
    """Return the current feedback on the task. None: nobody has given any.

    Raises:
        TaskUnknown: Its log has no entry.
        BusUnavailable: NATS does not answer.
    """
    _, found = await _end_of(bus, key)
    return None if found is None or found.rating is None else found


async def give_feedback(bus: Bus, key: TaskKey, feedback: Feedback) -> Feedback:
    """Store feedback on an ended task, in place of earlier feedback, and return it.

    Nothing is stored if the current feedback says the same, so the call may be repeated.

    Raises:
        NotOver: The task has not ended.
        TaskUnknown: Its log has no entry.
        LogFull, EventTooLarge: There is no room for it.
        BusUnavailable: It is not certain that it is stored. Repeat the call.
    """
    failure = BusUnavailable(f"others keep giving feedback on {key.task}; try again")
    for tried in range(_ROUNDS):
        # Those who write at once would otherwise meet again in each round.
        await asyncio.sleep(min(tried, 10) * _PAUSE * random.random())  # noqa: S311 - no secret
        end, current = await _end_of(bus, key)
        if not end.ends_task:
            raise NotOver(f"task {key.task} has not ended; feedback can be given once it has")
        if feedback.is_like(current):
            return current or feedback
        try:
            await LogWriter.after(bus, key, end).repeat_with(end, FEEDBACK, feedback.header)
        except LogFull:
            raise
        except BusUnavailable as unknown:
            failure = unknown
    raise failure


async def _end_of(bus: Bus, key: TaskKey) -> tuple[Entry, Feedback | None]:
    """Return the log's last entry, and the feedback with it."""
    message = await last_raw(bus, key)
    entry = None if message is None else from_leader(message).entry
    if message is None or entry is None:
        raise TaskUnknown
    return entry, feedback_in(headers_of(message), entry.time)
