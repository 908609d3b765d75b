"""What a webhook is told at a time: one event, or the pieces of one thing that follow each other.

An agent's answer comes as hundreds of small updates. Those that only go on with what the one before
them began are told as one, which says the same: the texts joined, with the last one's number.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import orjson

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.events import GENERATION, Json
from headrace.model.fold import Pieces
from headrace.model.task import WORKING, TaskKey
from headrace.webhooks import WebhookProgress

type GoesOn = Callable[[Json, Json], bool]
"""Tells whether an event is told together with the one before it."""

MOST_BYTES = 256 * 1024
"""Bytes of events that are told as one, about; a single event may be larger."""

_BATCH_BYTES = 1024 * 1024


@dataclass(slots=True)
class WebhookDelivery:
    """A StreamResponse to be sent, and what of the log it stands for."""

    log: str
    generation: int
    """Of its last event."""
    behind: int
    """Stream sequence up to which every entry is told entirely once this is."""
    events: list[Json]
    """In order; all but the first go on with the one before."""
    size: int
    """Bytes of the events in the log."""

    @property
    def first(self) -> int:
        """Generation of its first event."""
        return self.generation - len(self.events) + 1

    def event(self) -> Json:
        """Return the one StreamResponse that says what all of its events say.

        They are pieces of one thing (`says_more`), or a single one.
        """
        return _joined(self.events, self.generation)

    def take(self, further: "WebhookDelivery", until: int, goes_on: "GoesOn") -> bool:
        """Tell `further` too, if it goes on with this, and no delivery has ended in between."""
        fits = self.generation != until and self.size + further.size <= MOST_BYTES
        if not (fits and goes_on(self.events[-1], further.events[0])):
            return False
        self.events += further.events
        self.size += further.size
        self.generation, self.behind = further.generation, further.behind
        return True


class Grouping:
    """Makes deliveries of a log's entries, one after the other.

    What begins at one place always ends at the same, so that a delivery which was under way comes
    again as it was: it ends where it ended, however much came behind it meanwhile.
    """

    def __init__(self, told: WebhookProgress, goes_on: GoesOn) -> None:
        """Go on behind `told`."""
        self._told, self._behind, self._goes_on = told, told.sequence, goes_on
        self._held: WebhookDelivery | None = None

    def take(self, entry: Entry) -> Iterator[WebhookDelivery]:
        """Take the next entry and yield what is complete by it."""
        for generation, line in enumerate(entry.lines, entry.generation):
            if generation <= self._told.generation:
                continue
            behind = entry.sequence if generation == entry.last_generation else self._behind
            event = orjson.loads(line)
            one = WebhookDelivery(entry.stamp.log, generation, behind, [event], len(line))
            if self._held is None or not self._held.take(one, self._told.until, self._goes_on):
                yield from self.rest()
                self._held = one
        self._behind = entry.sequence
        if entry.stamp.checkpoint is not None:
            # A further attempt may discard what comes behind it, and no more.
            yield from self.rest()

    def rest(self) -> Iterator[WebhookDelivery]:
        """Yield what is left."""
        if self._held is not None:
            yield self._held
            self._held = None


async def deliveries(
    bus: Bus, key: TaskKey, told: WebhookProgress, goes_on: GoesOn
) -> AsyncIterator[WebhookDelivery]:
    """Yield what is to be told behind `told`, up to the log's head as it is now.

    Raises:
        LogLost: what was to be told is gone.
        BusUnavailable: the log can't be read.
    """
    last = await last_entry(bus, key)
    if last is None or last.last_generation <= told.generation:
        return
    grouping = Grouping(told, goes_on)
    async for batch in replay(bus, key, told.sequence, last.sequence, batch_bytes=_BATCH_BYTES):
        for entry in batch:
            for delivery in grouping.take(entry):
                yield delivery
    for delivery in grouping.rest():
        yield delivery


def says_more(event: Json, further: Json) -> bool:
    """Tell whether `further` is a piece of what `event` is a piece of: one event can say both."""
    artifact, next_artifact = event.get("artifactUpdate"), further.get("artifactUpdate")
    if artifact is not None and next_artifact is not None:
        return _same_artifact(artifact, next_artifact)
    status, next_status = event.get("statusUpdate"), further.get("statusUpdate")
    return status is not None and next_status is not None and _same_message(status, next_status)


def works_on(event: Json, further: Json) -> bool:
    """Tell whether the task was at work at both: the Task after the latter then says both."""
    return _is_work(event) and _is_work(further)


def _is_work(event: Json) -> bool:
    update = event.get("statusUpdate")
    return "artifactUpdate" in event if update is None else _state(update) == WORKING


def _same_artifact(update: Json, further: Json) -> bool:
    is_appended = further.get("append") and not update.get("lastChunk")
    artifact, same = update.get("artifact"), further.get("artifact")
    if not (is_appended and artifact and same):
        return False
    return bool(artifact.get("artifactId") == same.get("artifactId"))


def _same_message(update: Json, further: Json) -> bool:
    """Tell whether both are pieces of one thing that a working agent says."""
    if not _state(update) == _state(further) == WORKING:
        return False
    message, more = update["status"].get("message"), further["status"].get("message")
    if not (message and more and message.get("messageId")):
        return False
    return bool(message["messageId"] == more.get("messageId"))


def _state(update: Json) -> str | None:
    state: str | None = (update.get("status") or {}).get("state")
    return state


def _joined(events: list[Json], generation: int) -> Json:
    """Return the one event that says what `events` say."""
    if len(events) == 1:
        return events[0]
    kind = "artifactUpdate" if "artifactUpdate" in events[0] else "statusUpdate"
    updates = [event[kind] for event in events]
    joined: Json = {}
    for update in updates:
        metadata = (joined.get("metadata") or {}) | (update.get("metadata") or {})
        joined = joined | update | {"metadata": metadata}
    joined["metadata"][GENERATION] = generation
    if kind == "artifactUpdate":
        joined["artifact"] = _whole([update["artifact"] for update in updates])
        # Whether it begins anew is for the first piece to say.
        joined["append"] = bool(updates[0].get("append"))
    else:
        said = _whole([update["status"]["message"] for update in updates])
        joined["status"] = updates[-1]["status"] | {"message": said}
    return {kind: joined}


def _whole(said: list[Json]) -> Json:
    pieces, whole = Pieces(), dict[str, object]()
    for one in said:
        whole |= one
        pieces.extend(0, one.get("parts") or [])
    return whole | {"parts": pieces.merged()}
