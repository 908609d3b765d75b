"""The content of one notification: one event, or consecutive events combined into one.

An agent's answer arrives as hundreds of small updates. Updates that only continue the previous one
are sent as one event with the same content: the texts joined, with the last one's number.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model import json_text
from headrace.model.change import event_metadata
from headrace.model.entry import Entry
from headrace.model.errors import LogLost
from headrace.model.events import GENERATION, TRACEPARENT, Json
from headrace.model.pieces import Pieces
from headrace.model.task import WORKING, TaskKey
from headrace.webhooks import WebhookProgress

type Continues = Callable[[Json, Json], bool]
"""Returns whether an event is sent together with the one before it."""

MOST_BYTES = 256 * 1024
"""Approximate maximum bytes of events sent as one; a single event may be larger."""

_BATCH_BYTES = 1024 * 1024


@dataclass(slots=True)
class WebhookDelivery:
    """A StreamResponse to send, and the part of the log that it covers."""

    log: str
    generation: int
    """Generation of its last event."""
    resume_after: int
    """Stream sequence up to which every entry is sent completely once this delivery is."""
    events: list[Json]
    """The events in order; each but the first continues the one before."""
    size: int
    """Bytes of the events in the log."""
    time: str
    """When NATS stored its last event, RFC 3339."""
    traceparent: str | None = None
    """W3C trace context of the newest input up to there that came with one."""

    @property
    def first(self) -> int:
        """Generation of its first event."""
        return self.generation - len(self.events) + 1

    @property
    def stored(self) -> float:
        """When NATS stored its last event, in seconds since 1970."""
        return datetime.fromisoformat(self.time).timestamp()

    def event(self) -> Json:
        """Return one StreamResponse with the content of all of its events.

        There is a single event, or all continue the first (`extends`).
        """
        return _joined(self.events, self.generation)

    def include(self, further: "WebhookDelivery", until: int, continues: "Continues") -> bool:
        """Include `further` if it continues this delivery and no delivery has ended in between."""
        fits = self.generation != until and self.size + further.size <= MOST_BYTES
        if not (fits and continues(self.events[-1], further.events[0])):
            return False
        self.events += further.events
        self.size += further.size
        self.generation, self.resume_after = further.generation, further.resume_after
        self.time = further.time
        return True


class DeliveryBatcher:
    """Combines a log's entries into deliveries, one after the other.

    A delivery that starts at a given place always ends at the same place. So an interrupted
    delivery is repeated unchanged, however many entries have followed meanwhile.
    """

    def __init__(self, progress: WebhookProgress, continues: Continues) -> None:
        """Continue after `progress`."""
        self._progress, self._previous, self._continues = progress, progress.sequence, continues
        self._held: WebhookDelivery | None = None
        self._traceparent = progress.traceparent

    def add(self, entry: Entry) -> Iterator[WebhookDelivery]:
        """Add the next entry and yield the deliveries that it completes."""
        if entry.generation == entry.stamp.run:
            self._traceparent = event_metadata(entry.events[0]).get(TRACEPARENT, self._traceparent)
        for generation, line in enumerate(entry.lines, entry.generation):
            if generation <= self._progress.generation:
                continue
            resume_after = entry.sequence if generation == entry.last_generation else self._previous
            event = json_text.decode(line)
            one = WebhookDelivery(
                *(entry.stamp.log, generation, resume_after, [event], len(line), entry.time),
                traceparent=self._traceparent,
            )
            if self._held is None or not self._held.include(
                one, self._progress.until, self._continues
            ):
                yield from self.rest()
                self._held = one
        self._previous = entry.sequence
        if entry.stamp.checkpoint is not None:
            # A later attempt may discard what follows it, but nothing before.
            yield from self.rest()

    def rest(self) -> Iterator[WebhookDelivery]:
        """Yield the unfinished delivery, if any."""
        if self._held is not None:
            yield self._held
            self._held = None


async def deliveries(
    bus: Bus, key: TaskKey, progress: WebhookProgress, continues: Continues
) -> AsyncIterator[WebhookDelivery]:
    """Yield the deliveries after `progress`, up to the log's current head.

    Raises:
        LogLost: events that were not sent yet are gone.
        BusUnavailable: the log can't be read.
    """
    last = await last_entry(bus, key)
    if last is None:
        if progress.sequence:
            raise LogLost(f"the log of {key.task} is gone")
        return
    if last.last_generation <= progress.generation:
        return
    grouping = DeliveryBatcher(progress, continues)
    # From the last entry that was sent: nothing follows that one if it ended the task.
    after = max(progress.sequence - 1, 0)
    async for batch in replay(bus, key, after, last.sequence, batch_bytes=_BATCH_BYTES):
        for entry in batch:
            if entry.last_generation > progress.generation:
                for delivery in grouping.add(entry):
                    yield delivery
    for delivery in grouping.rest():
        yield delivery


def extends(event: Json, further: Json) -> bool:
    """Return whether `further` continues `event`, so that one event can contain both."""
    artifact, next_artifact = event.get("artifactUpdate"), further.get("artifactUpdate")
    if artifact is not None and next_artifact is not None:
        return _same_artifact(artifact, next_artifact)
    status, next_status = event.get("statusUpdate"), further.get("statusUpdate")
    return status is not None and next_status is not None and _same_message(status, next_status)


def both_working(event: Json, further: Json) -> bool:
    """Return whether the task was running at both: the Task after `further` then covers both."""
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
    """Return whether both are parts of one message of a running agent."""
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
    """Return one event with the content of `events`."""
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
        joined["artifact"] = _merged([update["artifact"] for update in updates])
        # The first part decides whether the text is replaced.
        joined["append"] = bool(updates[0].get("append"))
    else:
        message = _merged([update["status"]["message"] for update in updates])
        joined["status"] = updates[-1]["status"] | {"message": message}
    return {kind: joined}


def _merged(messages: list[Json]) -> Json:
    pieces, whole = Pieces(), dict[str, object]()
    for one in messages:
        whole |= one
        pieces.extend(0, one.get("parts") or [])
    return whole | {"parts": pieces.merged()}
