"""Dead letters: write, find, read, retry and drop them.

A run that was given up has ended its task with FAILED, and nothing follows a terminal state:
clients have been notified, streams have ended. So a retry sends its input as a *new* task in the
same context that references the failed one, as A2A specifies. The new task's id is derived from the
failed run, so repeated retries, by any number of operators, give one task.

A task's clean-up that was given up is requested again. A run request that could not be read and a
notification that was not accepted are sent again unchanged.

A letter's number is its sequence in the stream. Numbers are never reused.
"""

import hashlib
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from nats.aio.msg import Msg

from headrace import metrics
from headrace.environment import variable
from headrace.jetstream.api import (
    delete_message,
    get_message,
    store_with_retries,
    stream_info,
    until_answered,
)
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import direct_get
from headrace.jetstream.errors import ErrorCode, Refused
from headrace.jetstream.headers import MESSAGE_ID, SEQUENCE, SUBJECT, without_nats
from headrace.jetstream.purge import purge
from headrace.log import last_entry, replay, writer_of
from headrace.model import events, json_text
from headrace.model.delegation import DELEGATION
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, Fenced, HeadraceError, LogLost, UndecodableMessage
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import DeadLetter
from headrace.model.run import Run
from headrace.model.subjects import decode_token, encode_token, is_token, stream_of_shard
from headrace.model.task import FAILED, TaskKey, derive_task_id
from headrace.tasks.begin import first_input
from headrace.tasks.runs import RunRequests
from headrace.wait_for import ELECTION

_log = logging.getLogger(__name__)

type Kind = Literal["run", "run-request", "entry", "push", "event", "other"]
"""``run``: a run, or a task's clean-up, that was given up. ``run-request``: an unreadable request,
or one whose log is gone. ``entry``: a message in a log that is not an entry. ``push``: a
notification that was not accepted. ``event``: an event that its trigger could make no task of.
``other``: a kind that this version does not know, or a letter that names another tenant or agent
than its subject does."""

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)

_BATCH = 100

_BATCH_BYTES = 4 * 1024 * 1024

_MOST_READ = 10_000
_MOST_BYTES = 32 * 1024 * 1024
"""What is read for one page, about: letters, and bytes of what they are about."""

_PLACE = 32
"""Hexadecimal digits."""

_ROOM = 4096
"""Bytes of a message that its headers may take."""

_MOST_REASON = 4096
_MOST_CUT = 256 * 1024
"""Bytes that are kept of a body that is too large for a letter."""

_CLOCKS = timedelta(minutes=1)
"""How far clocks may differ: a gateway's, by which triggers are made, and NATS's."""


class LetterUnknown(HeadraceError):
    """No dead letter has this id: it was deleted or has expired."""

    code = "letter_unknown"


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A filter for letters; None matches all."""

    tenant: str | None = None
    agent: str | None = None
    kind: Kind | None = None
    task: str | None = None
    trigger: str | None = None
    """The trigger or schedule, as a source of firings."""
    since: datetime | None = None
    """Letters that were stored before this are not read."""

    def matches(self, letter: "Letter") -> bool:
        """Return whether a letter of this tenant has this agent, kind, task and trigger."""
        return (
            self.agent in (None, letter.agent)
            and self.kind in (None, letter.kind)
            and self.task in (None, letter.task)
            and self.trigger in (None, letter.content.trigger)
        )

    @property
    def place(self) -> str:
        """The last token of the subjects of all letters that match, as a pattern."""
        if self.trigger is not None:
            return _place_of(self.trigger)
        # Those of events have places of their own. A task that began has none.
        if self.agent is None or self.kind == "event" or (self.kind, self.task) == (None, None):
            return "*"
        return encode_token(self.agent)


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter."""

    number: int
    tenant: str
    agent: str
    kind: Kind
    content: DeadLetter

    @property
    def body(self) -> bytes:
        """The body of the original message."""
        return b64decode(self.content.body)

    @property
    def task(self) -> str | None:
        """The task. None: the letter names none."""
        return self.content.task

    def summary(self) -> Json:
        """Return the letter as a row of a list."""
        return {
            "id": self.number,
            "kind": self.kind,
            "tenant": self.tenant,
            "agent": self.agent,
            "task": self.task,
            "at": self.content.at,
            "reason": self.content.reason,
        }

    def details(self) -> Json:
        """Return the letter with the original message, as text and in Base64."""
        return self.summary() | {
            "subject": self.content.subject,
            "stream": self.content.stream,
            "sequence": self.content.sequence,
            "headers": self.content.headers,
            "headersLeftOut": self.content.headers_left_out or 0,
            "body": self.body.decode(errors="replace"),
            "bodyBase64": self.content.body,
            "size": len(self.body) if self.content.size is None else self.content.size,
            "sha256": self.content.sha256,
        }


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Some letters, oldest first."""

    letters: list[Letter]
    """They may be fewer than were asked for, or none, although others follow."""
    next: int | None
    """Number after which the next page begins. None: no letters follow."""


class Letters:
    """The dead-letter stream."""

    def __init__(self, bus: Bus) -> None:
        """Use the stream on `bus`."""
        self._bus = bus
        self._stream = bus.streams.dead

    async def find(self, wanted: LetterFilter, after: int = 0) -> AsyncIterator[Letter]:
        """Yield the matching letters with numbers above `after`, oldest first.

        Raises:
            InvalidName: A tenant or agent name is invalid.
            BusUnavailable: The stream does not answer or does not exist.
        """
        async for batch in self._batches(wanted, after):
            for letter in filter(wanted.matches, batch):
                yield letter

    async def page(
        self,
        wanted: LetterFilter,
        after: int,
        limit: int,
        most_read: int = _MOST_READ,
        most_bytes: int = _MOST_BYTES,
    ) -> LetterPage:
        """Return up to `limit` of the letters that `find` yields.

        About `most_read` letters or `most_bytes` are read, so that a filter that few match, and
        large letters, cost a caller several requests and not one long one.

        Raises:
            InvalidName, BusUnavailable: As `find`.
        """
        found, read, size = list[Letter](), 0, 0
        async for batch in self._batches(wanted, after):
            for letter in filter(wanted.matches, batch):
                if len(found) == limit:
                    return LetterPage(found, found[-1].number)
                found.append(letter)
            read += len(batch)
            size += sum(len(letter.content.body) for letter in batch)
            if read >= most_read or size >= most_bytes:
                return LetterPage(found, batch[-1].number)
        return LetterPage(found, None)

    async def _batches(self, wanted: LetterFilter, after: int) -> AsyncIterator[list[Letter]]:
        """Yield the letters at the places that `wanted` names."""
        with self._stream_required():
            await until_answered(self._bus, lambda: stream_info(self._bus, self._stream))
        subject = self._bus.subjects.dead(
            "*" if wanted.tenant is None else encode_token(wanted.tenant), wanted.place
        )
        start: Json = {"seq": after + 1}
        if wanted.since is not None and not after:
            start = {"start_time": wanted.since.isoformat()}
        while batch := await self._batch(subject, start):
            start = {"seq": batch[-1].number + 1}
            yield batch

    async def _batch(self, subject: str, start: Json) -> list[Letter]:
        """Return letters on `subject` from `start` on, as a part of a query."""
        query = {
            "batch": _BATCH,
            "max_bytes": _BATCH_BYTES,
            "next_by_subj": subject,
            **start,
        }

        async def ask() -> list[Letter]:
            answer = await direct_get(self._bus, self._stream, query, self._from_message)
            if not answer.messages and not answer.complete:
                raise BusUnavailable(f"stream {self._stream} does not answer")
            return answer.messages

        return await until_answered(self._bus, ask)

    async def get(self, number: int) -> Letter:
        """Return the letter with that number.

        Raises:
            LetterUnknown: No letter has this number.
            BusUnavailable: The stream does not answer or does not exist.
        """
        with self._stream_required():
            message = await until_answered(
                self._bus, lambda: get_message(self._bus, self._stream, {"seq": number})
            )
        if message is None:
            raise LetterUnknown(f"dead letter {number} does not exist")
        return self._read(message["seq"], message["subject"], b64decode(message.get("data") or ""))

    async def drop(self, number: int) -> None:
        """Delete the letter with that number and overwrite its bytes in NATS's files.

        Raises:
            LetterUnknown: No letter has this number.
            BusUnavailable: The stream does not answer or refuses.
        """
        with self._stream_required():
            was_there = await until_answered(
                self._bus, lambda: delete_message(self._bus, self._stream, number)
            )
        if not was_there:
            raise LetterUnknown(f"dead letter {number} does not exist")

    @contextmanager
    def _stream_required(self) -> Iterator[None]:
        try:
            yield
        except Refused as refused:
            if refused.number != ErrorCode.STREAM_NOT_FOUND:
                raise
            missing = (
                f"stream {self._stream} does not exist: no Headrace fleet has used this NATS server"
            )
            raise BusUnavailable(missing) from refused

    def _from_message(self, msg: Msg) -> Letter:
        headers = msg.headers or {}
        return self._read(int(headers[SEQUENCE]), headers[SUBJECT], msg.data)

    def _read(self, number: int, subject: str, data: bytes) -> Letter:
        _, *stored = subject.rsplit(".", 2)
        tenant, agent = map(decode_token, stored)
        try:
            content = DeadLetter.decode(subject, data)
        except UndecodableMessage as error:
            content = DeadLetter(reason=f"not a dead letter: {error.reason}", subject="", at="")
            return Letter(number, tenant, agent, "other", content)
        prefix = self._bus.subjects.prefix
        if not _is_stored_where_it_belongs(stored, content, prefix):
            return Letter(number, tenant, agent, "other", content)
        return Letter(number, tenant, content.agent or agent, _kind(content, prefix), content)


def letters_of(tenant: str, source: str, made: datetime) -> LetterFilter:
    """Return the filter for the letters of a trigger or schedule of the tenant, a token.

    Those from before it was `made` are not read.
    """
    return LetterFilter(decode_token(tenant), kind="event", trigger=source, since=made - _CLOCKS)


async def drop_letters_of(bus: Bus, tenant: str, source: str) -> None:
    """Drop the letters of a trigger or schedule of the tenant, a token.

    Raises:
        BusUnavailable: The stream does not answer or refuses.
    """
    await purge(bus, bus.streams.dead, bus.subjects.dead(tenant, _place_of(source)))


async def write_letter(
    bus: Bus, letter: DeadLetter, message_id: str | None = None, to: tuple[str, str] | None = None
) -> bool:
    """Store a letter. A second one with the same `message_id` is dropped for two minutes.

    It is for the tenant and agent `to`, as tokens; None: for those in the letter's subject. Of an
    original that is too large for a letter, the beginning is kept, with its size and its hash.

    A letter for which there is no room is counted and logged, but not stored: a task that can't
    end, or a view that can't go on, would be worse. The stream is full of letters to look at.

    Returns:
        Whether it is stored.

    Raises:
        BusUnavailable: It is not stored, or not for certain.
    """
    prefix = bus.subjects.prefix
    tenant, agent = addressee(letter.subject, prefix) if to is None else to
    place = agent
    if letter.trigger is not None:
        place = _place_of(letter.trigger)
        letter = letter.model_copy(update={"agent": agent})
    letter = fitted(letter, bus.max_payload - _ROOM)
    is_stored = True
    headers = None if message_id is None else {MESSAGE_ID: message_id}
    try:
        await store_with_retries(bus, bus.subjects.dead(tenant, place), letter.encode(), headers)
    except Refused as refused:
        if not refused.is_full:
            raise
        is_stored = False
        _log.error("there is no room for a dead letter of %s: %s", letter.subject, letter.reason)
        metrics.DEAD_LETTERS_DROPPED.labels(_kind(letter, prefix)).inc()
    metrics.DEAD_LETTERS.labels(_kind(letter, prefix)).inc()
    return is_stored


def fitted(letter: DeadLetter, most: int) -> DeadLetter:
    """Return the letter with as much of the original as `most` bytes hold, encoded.

    Who sent the original chose its size, and a larger message would not be stored at all.
    """
    letter = letter.model_copy(update={"reason": letter.reason[:_MOST_REASON]})
    if len(letter.encode()) <= most:
        return letter
    headers = _fitting(letter.headers, most // 4)
    left_out = len(letter.headers) - len(headers)
    letter = letter.model_copy(update={"headers": headers, "headers_left_out": left_out})
    if len(letter.encode()) <= most:
        return letter
    body = b64decode(letter.body)
    cut = {"body": "", "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    letter = letter.model_copy(update=cut)
    # Base64 makes four bytes of three.
    room = min(max(most - len(letter.encode()), 0) // 4 * 3, _MOST_CUT)
    return letter.model_copy(update={"body": b64encode(body[:room]).decode()})


def _fitting(headers: Mapping[str, str], most: int) -> dict[str, str]:
    """Return the first headers, and those behind larger ones, that `most` bytes of JSON hold."""
    kept = dict[str, str]()
    for name, value in headers.items():
        size = len(json_text.encode({name: value}))
        if size <= most:
            kept[name] = value
            most -= size
    return kept


def _place_of(source: str) -> str:
    """Return the last token of the subjects of a trigger's or schedule's letters.

    It is a hash, because a source's name may be as long as several tokens, and no agent's name.
    """
    return f"_{hashlib.sha256(source.encode()).hexdigest()[:_PLACE]}"


def addressee(subject: str, prefix: str) -> tuple[str, str]:
    """Return the tenant and agent of a letter, each "unknown" where `subject` names none."""
    kind, *tokens = subject.removeprefix(f"{prefix}.").split(".")
    tenant, agent = (*tokens[0 if kind == "run" else 1 :], "", "")[:2]
    # Not every subject that NATS stores a message on can become another one's token.
    return tenant if is_token(tenant) else "unknown", agent if is_token(agent) else "unknown"


def _is_stored_where_it_belongs(stored: list[str], letter: DeadLetter, prefix: str) -> bool:
    """Return whether the last two tokens of its subject are those that `write_letter` chooses.

    NATS enforces the subject, but not what the letter states: a retry of a worker's letter would
    otherwise send a run or a notification of any agent and tenant, in the gateway's name.
    """
    if letter.trigger is not None:
        return stored[1] == _place_of(letter.trigger)
    return letter.agent is None and tuple(stored) == addressee(letter.subject, prefix)


def _kind(letter: DeadLetter, prefix: str) -> Kind:
    if letter.trigger is not None:
        return "event"
    match letter.subject.removeprefix(f"{prefix}.").partition(".")[0]:
        case "run":
            return "run-request" if letter.task is None else "run"
        case "event":
            return "entry"
        case "push":
            return "push"
        case _:
            return "other"


_PASSING = (
    events.GENERATION,
    events.WAITING,
    events.IS_ANSWER,
    events.TASK_ALREADY_SENT,
    events.START_AT,
    events.START_BY,
    DELEGATION,
)
"""Metadata that a retried input does not keep: it describes the log, or a parent that no longer
waits, and not the work."""


class NotRetryable(HeadraceError):
    """The dead letter can't be retried; the message gives the reason."""

    code = "not_retryable"


@dataclass(frozen=True, slots=True)
class RetryResult:
    """The result of a retry."""

    task: str | None
    """The task that does the work now. None: the letter was not about a run."""
    outcome: str


@dataclass(frozen=True, slots=True)
class _Failed:
    """A run that was given up, read from its log."""

    run: Run
    history: list[Json]
    """The earlier messages, and the run's input as the last one."""
    metadata: Json


async def retry(bus: Bus, letter: Letter) -> RetryResult:
    """Retry the work of `letter`. The letter itself stays.

    Raises:
        NotRetryable: It can't or need not be retried.
        EventTooLarge: The input and the earlier messages no longer fit into one message.
        BusUnavailable: NATS does not answer. Another retry does nothing twice.
    """
    if letter.content.size is not None and letter.kind in {"run", "run-request", "push"}:
        raise NotRetryable(
            f"only the beginning is kept of its {letter.content.size} bytes: it is too large"
        )
    match letter.kind:
        case "run":
            return await _retry_run(bus, letter)
        case "run-request" | "push":
            _check_stored(bus, letter)
            own = without_nats(letter.content.headers)
            await _send_again(bus, letter.content.subject, letter.body, own)
            return RetryResult(None, f"sent again on {letter.content.subject}")
        case "event":
            raise NotRetryable("correct the trigger or the event, and publish the event again")
        case "entry":
            raise NotRetryable("a malformed log entry can't be retried")
        case _:
            raise NotRetryable(
                "it is of an unknown kind, or names another tenant or agent than its subject does"
            )


async def retry_and_drop(bus: Bus, letter: Letter) -> RetryResult:
    """Retry the work of `letter`, and drop the letter then.

    Raises:
        LetterUnknown: The work was retried, and another process has dropped the letter.
        HeadraceError: As `retry`; the letter stays.
    """
    retried = await retry(bus, letter)
    await Letters(bus).drop(letter.number)
    return retried


async def _retry_run(bus: Bus, letter: Letter) -> RetryResult:
    try:
        content = letter.content
        run = Run.read(bus.subjects, content.subject, content.headers, letter.body).without_input()
    except UndecodableMessage as error:
        raise NotRetryable(str(error)) from error
    key = run.key
    if (stream := stream_of_shard(key.shard)) >= bus.settings.event_streams:
        # Nobody listens there, as in an election, which the read would wait out.
        raise NotRetryable(
            f"task {key.task} is in stream {bus.streams.events(stream)}, which does not exist: "
            f"{variable('event_streams')} is {bus.settings.event_streams}"
        )
    last = await last_entry(bus, key)
    if last is None or last.stamp.log != run.log:
        raise NotRetryable(f"the log of task {key.task} is gone")
    if last.stamp.run > run.generation:
        raise NotRetryable(f"task {key.task} has since continued with another input")
    if last.ends_task and last.last_generation == run.generation:
        await RunRequests(bus).publish(run)
        return RetryResult(key.task, "the task's clean-up is requested again")
    if not last.ends_run:
        await RunRequests(bus).publish(run)
        return RetryResult(key.task, "the task has not failed; its run is requested again")
    if last.stamp.state != FAILED:
        state = last.stamp.state.removeprefix("TASK_STATE_")
        raise NotRetryable(f"task {key.task} is no longer FAILED but {state}")
    return await _begin_anew(bus, await _read(bus, run, last))


async def _read(bus: Bus, run: Run, last: Entry) -> _Failed:
    key, fold, metadata = run.key, TaskFold(), dict[str, object]()
    try:
        async for batch in replay(bus, key, 0, last.sequence):
            for entry in batch:
                for generation, event in enumerate(entry.parsed(), entry.generation):
                    if generation <= run.generation:
                        fold.apply(event)
                    if generation == run.generation:
                        metadata = next(iter(event.values())).get("metadata") or {}
    except LogLost as loss:
        raise NotRetryable(f"the beginning of task {key.task} is gone: {loss}") from loss
    task = fold.task()
    history = [*task.get("history", []), *([m] if (m := task["status"].get("message")) else [])]
    if not history:
        raise NotRetryable(f"the input of task {key.task} contains no message")
    metadata = {**task["metadata"], **metadata}
    return _Failed(run, history, {k: v for k, v in metadata.items() if k not in _PASSING})


async def _begin_anew(bus: Bus, failed: _Failed) -> RetryResult:
    run, old = failed.run, failed.run.key
    task = derive_task_id(old.shard, old.task, f"retry {run.generation}", old.thread)
    key = TaskKey(old.tenant, old.agent, task)
    *before, message = failed.history
    references = dict.fromkeys([*message.get("referenceTaskIds", []), old.task])
    metadata = failed.metadata | {
        # No client waits for a bare Message from it.
        events.TASK_ALREADY_SENT: True,
        events.RETRY_OF: {"task": old.task, "generation": run.generation},
    }
    writer = writer_of("retry")
    message = message | {"referenceTaskIds": list(references)}
    again = first_input(
        bus,
        key,
        run.context,
        message,
        metadata,
        owner=run.owner,
        writer=writer,
        history=before,
    )
    try:
        appended = await again.append(ELECTION)
    except Fenced:
        return await _was_retried(bus, run._replace(key=key, generation=1))
    again_run = again.stored_run(appended)
    terms = again_run.terms._replace(priority=run.terms.priority)
    await RunRequests(bus).publish(again_run._replace(terms=terms))
    return RetryResult(key.task, f"retried as task {key.task}")


async def _was_retried(bus: Bus, run: Run) -> RetryResult:
    last = await last_entry(bus, run.key)
    if last is not None and last.stamp.run == 1 and not last.ends_run:
        await RunRequests(bus).publish(run._replace(log=last.stamp.log))
    return RetryResult(run.key.task, f"already retried as task {run.key.task}")


def _check_stored(bus: Bus, letter: Letter) -> None:
    """Refuse a subject that no stream stores: like an election, it has no listener."""
    subject = letter.content.subject
    key_of = bus.subjects.key_of_push if letter.kind == "push" else bus.subjects.key_of_run
    try:
        key_of(subject)
    except UndecodableMessage as error:
        raise NotRetryable(str(error)) from error


async def _send_again(
    bus: Bus, subject: str, body: bytes, headers: dict[str, str] | None = None
) -> None:
    try:
        await store_with_retries(bus, subject, body, headers or None)
    except Refused as refused:
        if not refused.is_duplicate:
            raise
