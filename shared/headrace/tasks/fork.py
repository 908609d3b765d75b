"""Forking: the log of a new task begins with a copy of another task's past.

The copy has the same events with the same generations, so whatever reads a log (folds, adapters, a
new attempt) finds in it what it found in the source. Ids of task and context are the new task's.
Large files are copied, too: the source's are deleted with the source.

A copy takes several appends. Its first event states how far it reaches, so an unfinished one can be
recognized, and anybody may finish it: each append follows the last one by compare-and-set.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from headrace import clock
from headrace.jetstream.connection import Bus
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.log import LogWriter, first_entry, last_entry, replay, writer_of
from headrace.model import events, json_text
from headrace.model.delegation import DELEGATION
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import Fenced, FileUnknown, LogLost
from headrace.model.events import Draft, Json
from headrace.model.file_links import LINK, SCHEME
from headrace.model.fork import FORK_OF, FORK_WRITER, ForkOf, ForkPoint, ForkPoints
from headrace.model.task import (
    BARE_MESSAGE,
    INPUT_REQUIRED,
    REJECTED,
    SUBMITTED,
    TERMINAL,
    WORKING,
    TaskKey,
    mint_log_id,
)
from headrace.tasks.end import end_after
from headrace.wait_for import ELECTION

_ENTRY = 128 * 1024
"""Bytes of events after which a copied entry ends."""

_READ = 512 * 1024
"""Bytes of the source that are read at a time."""

_SCHEME = SCHEME.encode()
_LINK = re.compile(LINK.pattern.encode())

GIVEN_UP = timedelta(seconds=60)
"""Age of a copy's last append after which the copy is given up if it is unfinished."""

UNFINISHED = "Rejected: the past of this fork was not copied completely"

_NOT_KEPT = frozenset(
    {
        events.GENERATION,
        events.RETRY_OF,
        events.START_AT,
        events.START_BY,
        events.WAIT_FOR,
        events.TRACEPARENT,
        DELEGATION,
        FORK_OF,
    }
)
"""Metadata of inputs that a fork does not keep: it describes when and for whom the source worked,
and not the work."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that is wanted."""

    source: TaskKey
    key: TaskKey
    """Where its log begins."""
    owner: str
    """Of both tasks, as a subject token."""
    context: str
    """The fork's context."""
    of: ForkOf
    point: ForkPoint


@dataclass(frozen=True, slots=True)
class Forked:
    """A complete copy: the log's end, and what a run needs to continue from there."""

    log: str
    sequence: int
    generation: int
    point: ForkPoint
    priority: str | None
    """Priority of the run that the copy ends in; None for the normal one."""
    version: str | None
    """The version that the source is pinned to, and so the copy; None: it is not pinned."""


async def fork_point(
    bus: Bus, source: TaskKey, head: int, generation: int
) -> tuple[ForkPoint, Json, str]:
    """Return where a fork of `source` at `generation` begins, and the source's first metadata.

    The last value is the source's context. `head` is the sequence of the source's last entry.

    Raises:
        LogLost: the source's beginning is gone.
        BusUnavailable: the source's log does not answer.
    """
    points, first = ForkPoints(generation), dict[str, Any]()
    async for batch in replay(bus, source, 0, head, batch_bytes=_READ):
        for entry in batch:
            if entry.generation == 1:
                first = next(entry.parsed()).get("task") or {}
            points.add(entry)
        if batch[-1].last_generation >= generation:
            break
    if points.point is None or not first:
        raise LogLost(f"the beginning of task {source.task} is gone")
    return points.point, first.get("metadata") or {}, str(first.get("contextId", ""))


async def unfinished_fork(bus: Bus, key: TaskKey, last: Entry) -> ForkOf | None:
    """Return where the fork at `key` comes from if its copy, which ends with `last`, is unfinished.

    Raises:
        BusUnavailable: the log does not answer.
    """
    if not is_copy(last):
        return None
    fork = await fork_at(bus, key)
    return fork if fork is not None and last.last_generation < fork.complete else None


def is_copy(entry: Entry) -> bool:
    """Return whether `entry` was written by the process that begins a fork."""
    return entry.stamp.writer.startswith(f"{FORK_WRITER}-")


async def fork_at(bus: Bus, key: TaskKey) -> ForkOf | None:
    """Return where the task at `key` comes from. None: it is no fork.

    Raises:
        BusUnavailable: the log does not answer.
    """
    first = await first_entry(bus, key)
    task = {} if first is None else next(first.parsed()).get("task") or {}
    return ForkOf.of(task.get("metadata"))


async def end_unfinished(bus: Bus, key: TaskKey, last: Entry) -> bool:
    """End the fork at `key` as rejected if its copy, which ends with `last`, has been given up.

    Return whether it was ended.

    Raises:
        LogLost, BusUnavailable: as `end_after`.
    """
    if clock.now() - datetime.fromisoformat(last.time) < GIVEN_UP:
        return False
    try:
        await end_after(bus, key, last, REJECTED, writer_of("rejection"), UNFINISHED)
    except Fenced:
        return False
    return True


async def copy_past(bus: Bus, fork: Fork, head: int) -> Forked:
    """Copy the source's past to the fork's log, or what is missing of it.

    `head` is the sequence of the source's last entry.

    Raises:
        Fenced: another process appends at the same time, or the log has newer entries already.
        LogLost: the source's log is gone.
        LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: as `LogWriter.append`; call again.
    """
    last = await last_entry(bus, fork.key)
    if last is None:
        log, writer = mint_log_id(), LogWriter(bus, fork.key)
    elif not is_copy(last) or last.last_generation > fork.point.generation:
        raise Fenced(f"the log of {fork.key.task} has newer entries")
    else:
        log, writer = last.stamp.log, LogWriter.after(bus, fork.key, last)
    copy = _Copy(bus, fork, log, writer_of(FORK_WRITER))
    async for stamp, drafts in copy.entries(head, writer.generation):
        await writer.append(drafts, stamp, ELECTION)
    return Forked(log, writer.sequence, writer.generation, fork.point, copy.priority, copy.version)


async def hand_over(bus: Bus, fork: Fork, copied: Forked) -> Forked:
    """Record that the source's attempt does not continue in the fork; another attempt follows.

    The attempt counts as handed back, and not as failed.

    Raises:
        Fenced: another process appended first, possibly the same.
        LogLost, LogFull, BusUnavailable, OutcomeUnknown: as `LogWriter.append`.
    """
    point, generation = copied.point, copied.generation + 1
    stamp = Stamp(
        copied.log,
        generation,
        writer_of(FORK_WRITER),
        WORKING,
        point.run,
        point.attempt,
    )
    handed_back = {events.HANDED_BACK: events.LEAVING}
    draft = events.status_update(fork.key.task, fork.context, WORKING, metadata=handed_back)
    writer = LogWriter(bus, fork.key, sequence=copied.sequence, generation=copied.generation)
    appended = await writer.append([draft], stamp, ELECTION)
    return replace(copied, sequence=appended.sequence, generation=appended.generation)


@dataclass(slots=True)
class _Copy:
    """The fork's entries, from the source's."""

    bus: Bus
    fork: Fork
    log: str
    writer: str
    priority: str | None = None
    version: str | None = None
    _files: dict[bytes, bytes] = field(default_factory=dict)
    """New links by the source's."""

    async def entries(self, head: int, after: int) -> AsyncIterator[tuple[Stamp, list[Draft]]]:
        """Yield the entries that follow generation `after`.

        Adjacent entries of an attempt become one, unless the first has a checkpoint or a step,
        which belongs to the events before it.
        """
        group, size = list[Entry](), 0
        async for batch in replay(self.bus, self.fork.source, 0, head, batch_bytes=_READ):
            for entry in batch:
                if entry.generation > self.fork.point.generation:
                    break
                self._note_terms(entry)
                if entry.last_generation <= after:
                    continue
                entry = self._cut(entry, after)  # noqa: PLW2901  # the part that is copied
                more = sum(map(len, entry.lines))
                if group and not (_is_same(group[-1], entry) and size + more <= _ENTRY):
                    yield await self._entry(group)
                    group, size = [], 0
                group.append(entry)
                size += more
            if batch[-1].last_generation >= self.fork.point.generation:
                break
        if group:
            yield await self._entry(group)

    def _note_terms(self, entry: Entry) -> None:
        if entry.generation == entry.stamp.run:
            for body in entry.events[0].values():
                self.version = (body.get("metadata") or {}).get(events.VERSION, self.version)
        offset = self.fork.point.run - entry.generation
        if 0 <= offset < len(entry.lines):
            for body in entry.events[offset].values():
                self.priority = (body.get("metadata") or {}).get(events.PRIORITY)

    def _cut(self, entry: Entry, after: int) -> Entry:
        """Return the entry without events up to `after`, and beyond the point."""
        first, last = entry.generation, self.fork.point.generation
        lines = entry.lines[max(after + 1 - first, 0) : last + 1 - first]
        # Only an input can be followed by other events in its entry.
        state = entry.stamp.state if last >= entry.last_generation else SUBMITTED
        stamp = entry.stamp._replace(generation=max(first, after + 1), state=state)
        return Entry(stamp, lines, entry.sequence, entry.time)

    async def _entry(self, group: list[Entry]) -> tuple[Stamp, list[Draft]]:
        drafts = list[Draft]()
        for entry in group:
            for generation, line in enumerate(entry.lines, entry.generation):
                drafts.append(self._draft(await self._with_files(line), generation))
        first, last = group[0].stamp, group[-1].stamp
        state = INPUT_REQUIRED if last.state in TERMINAL | {BARE_MESSAGE} else last.state
        checkpoint = last.checkpoint
        if checkpoint is not None:
            checkpoint = await self._in_header(checkpoint)
        return first._replace(
            log=self.log,
            writer=self.writer,
            state=state,
            owner=self.fork.owner if first.generation == 1 or last.owner else None,
            checkpoint=checkpoint,
            step=None if last.step is None else await self._in_header(last.step),
        ), drafts

    def _draft(self, line: bytes, generation: int) -> Draft:
        event: Json = json_text.decode(line)
        try:
            return self._rewritten(event, generation)
        except (AttributeError, KeyError, TypeError, ValueError):
            # Folds skip what is no A2A event, here as in the source.
            return events.draft("unreadable", {})

    def _rewritten(self, event: Json, generation: int) -> Draft:
        [(kind, body)] = event.items()
        metadata: Json = body.pop("metadata", None) or {}
        if kind == "message":
            message = {**body, "metadata": metadata} if metadata else body
            return self._rest(message, {})
        if kind == "task" and generation == 1:
            self._own(body, "id")
            for message in body.get("history") or ():
                self._own(message)
            of = self.fork.of.to_json()
            # The client gets the task, so its agent's answer can't be a bare Message.
            metadata = {**_kept(metadata), events.TASK_ALREADY_SENT: True, FORK_OF: of}
        else:
            self._own(body)
        status = body.get("status")
        if isinstance(status, dict):
            if isinstance(status.get("message"), dict):
                self._own(status["message"])
            if kind == "statusUpdate" and status.get("state") == SUBMITTED:
                metadata = _kept(metadata)
            if generation == self.fork.point.generation:
                if status.get("state") in TERMINAL:
                    return self._rest(status.get("message"), metadata)
                status["timestamp"] = events.now()
        return events.draft(kind, body, metadata)

    def _rest(self, message: Json | None, metadata: Json) -> Draft:
        """Return a status at which the fork waits for its user, in place of the source's end."""
        return events.status_update(
            self.fork.key.task, self.fork.context, INPUT_REQUIRED, message, metadata
        )

    def _own(self, body: Json, name: str = "taskId") -> None:
        """Set the ids of task and context where the source's were."""
        if body.get(name) == self.fork.source.task:
            body[name] = self.fork.key.task
        if "contextId" in body:
            body["contextId"] = self.fork.context

    async def _in_header(self, header: str) -> str:
        """Return a checkpoint, or a step, whose links lead to the fork's files."""
        if SCHEME in header:
            return (await self._with_files(header.encode())).decode()
        with suppress(KeyError, TypeError, ValueError):
            held = json_text.decode(header)
            data = b64decode(held["data64"])
            if _SCHEME in data:
                held["data64"] = b64encode(await self._with_files(data)).decode()
                return json_text.encode(held).decode()
        return header

    async def _with_files(self, text: bytes) -> bytes:
        """Return `text` with links to copies of the files that it links to."""
        if _SCHEME not in text:
            return text
        for link in dict.fromkeys(found[0] for found in _LINK.finditer(text)):
            if link not in self._files:
                self._files[link] = await self._copied(link)
        return _LINK.sub(lambda found: self._files[found[0]], text)

    async def _copied(self, link: bytes) -> bytes:
        fork = self.fork
        reader = FileOwner(fork.owner, fork.of.context)
        belongs_to = FileOwner(fork.owner, fork.context)
        files, tenant = FileStore(self.bus), fork.source.tenant
        try:
            return (await files.copy(link.decode(), tenant, reader, fork.key, belongs_to)).encode()
        except FileUnknown:
            # As unreadable in the fork as in the source.
            return link


def _kept(metadata: Json) -> Json:
    return {key: value for key, value in metadata.items() if key not in _NOT_KEPT}


def _is_same(last: Entry, entry: Entry) -> bool:
    """Return whether `entry` can be stored with `last`, under one stamp."""
    mine, other = last.stamp, entry.stamp
    same = (mine.run, mine.attempt, mine.state) == (other.run, other.attempt, other.state)
    return same and mine.checkpoint is None and mine.step is None and not last.ends_run
