"""Build the events of a log: A2A v1.0 ``StreamResponse`` objects as JSON lines.

An event's generation is known only when it is appended. Until then it is a *draft*: the bytes
before the generation and the bytes after it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from headrace.model import json_text
from headrace.model.task import SUBMITTED, WORKING

GENERATION = "headrace.generation"
"""Metadata key of every event's generation (the SDK's clients drop SSE ids)."""
ATTEMPT = "headrace.attempt"
"""Metadata key of a WORKING status that begins an attempt."""
WORKER = "headrace.worker"
"""Metadata key together with `ATTEMPT`: the worker that holds the run."""
DISCARDED_AFTER = "headrace.discardedAfter"
"""Metadata key together with `ATTEMPT`, from attempt 2 on: every fold drops the run's output
between that generation and this event."""
HANDED_BACK = "headrace.handedBack"
"""Metadata key of a WORKING status that ends an attempt but not its run: a new attempt follows.
Its value is `LEAVING`, `ASLEEP` or `TRYING_AGAIN`; only the last counts as a failed attempt."""
LEAVING = "leaving"
"""The worker shuts down."""
TRYING_AGAIN = "retry"
"""The agent asked for another attempt after a delay."""
ASLEEP = "asleep"
"""The agent sleeps; together with `ASLEEP_UNTIL`."""
ASLEEP_UNTIL = "headrace.asleepUntil"
"""Metadata key of the status of a run that sleeps: when its next attempt begins, RFC 3339."""
ASLEEP_FOR = "headrace.asleepFor"
"""Metadata key together with `ASLEEP_UNTIL`: the sources for which the run waits. What one of them
sends ends the sleep."""
WOKEN = "woken"
"""Value of `HANDED_BACK` in a status that records what has arrived for a run that sleeps."""
SLEEP = "headrace.sleep"
"""Metadata key of a WORKING status that records when a sleep of the run ends: an object with its
``id`` and ``until``, an RFC 3339 time. That of a wait has its sources, too, as ``for``."""
ARRIVED = "headrace.arrived"
"""Metadata key of a status that records what has arrived from a source: the source."""
STEP = "headrace.step"
"""Metadata key of a WORKING status that shows a step: an object with its ``name``, its ``state``
(`started`, which only longer steps have, `completed` or `failed`), and ``seconds`` in the latter
two."""
MEMORY = "headrace.memory"
"""Metadata key of a status: how often the agent wrote each memory (`task`, `conversation` or
`owner`) since the status before that says so."""
QUEUED = "headrace.queued"
"""Metadata key of a status that queues a message to a working task: an object with the user's
``message`` and its ``metadata``. The message is not an input yet."""
INPUT_ID = "headrace.inputId"
"""Metadata key together with `QUEUED`: the message's idempotency id."""
TAKEN = "headrace.taken"
"""Metadata key of a WORKING status with a user's message: generation of the queued message that the
working agent received, or that the end of the task leaves unanswered."""
WAITING = "headrace.waiting"
"""Metadata key of an input, and of a question's message: generations of earlier messages that are
still queued."""
IS_ANSWER = "headrace.isAnswer"
"""Metadata key of an input, true: it answers a question behind which those in `WAITING` wait."""
RETRACTED = "headrace.retracted"
"""Metadata key of an artifact update that empties an artifact which only a discarded attempt
produced, for clients that show it. Folds ignore the event: they have dropped the artifact."""
NEEDS_ANSWER = "headrace.needsAnswer"
"""Metadata key of an INPUT_REQUIRED status's message, true: it has interrupts, which a message that
was sent before the question does not answer. Also in `ASKS_FOR`, for a child's question."""
INPUT_SCHEMA = "headrace.inputSchema"
"""Metadata key of an INPUT_REQUIRED status's message: JSON Schema of the answer."""
TASK_ALREADY_SENT = "headrace.shown"
"""Metadata key of generation 1, true: the client has already received the Task, so a bare Message
becomes the message of a COMPLETED status."""
RETRY_OF = "headrace.retryOf"
"""Metadata key of generation 1: the failed ``task`` and input (``generation``) that an operator
retries with this task."""
TRACEPARENT = "headrace.traceparent"
"""Metadata key of an input: the W3C trace context of its request."""
ATTEMPT_TRACEPARENT = "headrace.attemptTraceparent"
"""Metadata key together with `ATTEMPT`: the W3C trace context of the attempt's span, if traces are
exported. The span of an attempt that takes the run over links to it."""
EXTENSIONS = "headrace.extensions"
"""Metadata key of an input: URIs of the agent's A2A extensions that its request activated."""
ACCEPTED_MODES = "headrace.acceptedOutputModes"
"""Metadata key of an input: the media types that its client accepts."""
AGUI = "headrace.agui"
"""Metadata key of an input sent over AG-UI: ``runId``, ``protocolVersion``, ``parentRunId``,
``state``, ``tools``, ``context``, ``forwardedProps``, ``resume`` and ``messages``, as the client
sent them, except that large files in messages are replaced by links. The message that became the
input is listed without its content."""
VERSION = "headrace.version"
"""Metadata key of an input: the version of the agent that its task is pinned to from here on."""
PRIORITY = "headrace.priority"
"""Metadata key of an input: the priority of its run, unless it is the default."""
START_BY = "headrace.startBy"
"""Metadata key of an input, an RFC 3339 time: if no worker has begun its run by then, the task is
REJECTED."""
START_AT = "headrace.startAt"
"""Metadata key of an input, an RFC 3339 time: its run is requested then, and not before."""
ENDING = "headrace.ending"
"""Metadata key of a status: the state in which the holder will end the run, recorded before it
cancels the run's child tasks. A worker that takes over a run to be CANCELED cancels it."""
WAIT_FOR = "headrace.wait_for"
"""Metadata key of generation 1: ids of tasks of the same agent. No worker begins this task while
any of them is SUBMITTED or WORKING."""
RECOVERED = "headrace.recovered"
"""Metadata key of a Task snapshot that replaces earlier events, which were lost."""
START = "start"
"""Cursor before the first event of a task, whatever its log is."""

_MARK = "\ue000headrace-text\ue001"

type Json = dict[str, Any]

INTERRUPTS = "headrace.interrupts"
"""AG-UI Interrupts: the questions, each with an ``id`` that the answer refers to."""
REFUSED = "headrace.refused"
"""Metadata key of an INPUT_REQUIRED status that repeats a question: why the last answer was not
used."""
PENDING_TOOL_CALLS = "headrace.pendingToolCalls"
"""Ids of the tool calls that the client executes; the run ends with success, and the next run's
input has their results."""


class Draft(NamedTuple):
    """An event without its generation."""

    head: bytes
    tail: bytes

    def line(self, generation: int) -> bytes:
        """Return the event's line in the log."""
        return b"%b%d%b" % (self.head, generation, self.tail)

    @property
    def size(self) -> int:
        """Maximum size of the line in bytes."""
        return len(self.head) + len(self.tail) + 20


def timestamp(time: datetime, timespec: str = "milliseconds") -> str:
    """Return `time`, which is in UTC, as precise as `datetime.isoformat` takes `timespec`."""
    return time.isoformat(timespec=timespec).replace("+00:00", "Z")


def read_time(text: object) -> datetime | None:
    """Return an RFC 3339 time. None: the text is none, as one without an offset from UTC."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return time if time is not None and time.tzinfo is not None else None


def now() -> str:
    """Return the time as A2A writes it: RFC 3339, UTC, milliseconds."""
    return timestamp(datetime.now(UTC))


def draft(kind: str, body: Json, metadata: Json | None = None) -> Draft:
    """Return ``{kind: {**body, "metadata": {**metadata, GENERATION: …}}}`` as a draft.

    A generation in `metadata` (of a relayed child event) is replaced by the event's own.

    Raises:
        TypeError: a value is not JSON.
    """
    inner = b""
    if metadata:
        own = {name: value for name, value in metadata.items() if name != GENERATION}
        inner = json_text.encode(own)[1:-1]
    head = b'{"%b":%b,"metadata":{%b%b"%b":' % (
        kind.encode(),
        json_text.encode(body)[:-1],
        inner,
        b"," if inner else b"",
        GENERATION.encode(),
    )
    return Draft(head, b"}}}")


def task_submitted(
    task: str,
    context: str,
    message: Json,
    metadata: Json | None = None,
    before: Sequence[Json] = (),
) -> Draft:
    """Generation 1: a task with its first message; `before` are earlier messages."""
    history = [{**item, "taskId": task, "contextId": context} for item in (*before, message)]
    status = {"state": SUBMITTED, "timestamp": now()}
    body = {"id": task, "contextId": context, "status": status, "history": history}
    return draft("task", body, metadata)


def status_update(
    task: str, context: str, state: str, message: Json | None = None, metadata: Json | None = None
) -> Draft:
    """A change of state, or a message of the agent that is not part of an artifact."""
    status: Json = {"state": state, "timestamp": now()}
    if message is not None:
        status["message"] = {**message, "taskId": task, "contextId": context}
    return draft("statusUpdate", {"taskId": task, "contextId": context, "status": status}, metadata)


def queued(  # noqa: PLR0913, PLR0917  # what such an event says
    task: str,
    context: str,
    state: str,
    message: Json,
    metadata: Json | None,
    name: str,
    *,
    start_at: str | None = None,
) -> Draft:
    """A queued message with the idempotency id `name`; the task stays in `state`.

    `start_at` is that of the input before it, which no worker has begun.
    """
    held = {"message": message, "metadata": metadata or {}}
    own: Json = {QUEUED: held, INPUT_ID: name}
    if start_at is not None:
        own[START_AT] = start_at
    return status_update(task, context, state, None, own)


def taken(task: str, context: str, message: Json, generation: int) -> Draft:
    """A queued message of the user, `generation`, that becomes part of the task here."""
    return status_update(task, context, WORKING, message, {TAKEN: generation})


def artifact_update(
    task: str,
    context: str,
    artifact: Json,
    *,
    append: bool = False,
    last_chunk: bool = False,
    metadata: Json | None = None,
) -> Draft:
    """A piece of an artifact; the first piece is without `append`."""
    body: Json = {"taskId": task, "contextId": context, "artifact": artifact}
    if append:
        body["append"] = True
    if last_chunk:
        body["lastChunk"] = True
    return draft("artifactUpdate", body, metadata)


def bare_message(context: str, message: Json) -> Draft:
    """An answer that is a Message, not a Task."""
    body = {key: value for key, value in message.items() if key != "metadata"}
    body = {**body, "contextId": context}
    return draft("message", body, message.get("metadata"))


_UNFIT = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


class TextChunks:
    """Drafts of one artifact's text chunks; everything but the text is encoded once.

    A chunk costs one string encoding: about half a microsecond.
    """

    def __init__(self, task: str, context: str, artifact_id: str, metadata: Json) -> None:
        """Encode the frame of every chunk after the first; each part gets `metadata`."""
        frame = artifact_update(
            task,
            context,
            {"artifactId": artifact_id, "parts": [{"text": _MARK, "metadata": metadata}]},
            append=True,
        )
        self._before, self._after = frame.head.split(json_text.encode(_MARK), 1)
        self._tail = frame.tail
        self.frame_size = len(frame.head) + len(frame.tail)
        """Bytes of a chunk beside its text and its generation, at most."""

    def draft(self, text: str) -> Draft:
        """Return the chunk that appends `text`.

        Raises:
            TypeError: `text` is not a string, or has half of a character.
        """
        # As `json_text.encode`, with fewer calls.
        encoded = orjson.dumps(text)  # noqa: TID251
        if not text.isascii() and ("\x85" in text or "\u2028" in text or "\u2029" in text):
            encoded = json_text.one_line(encoded)
        return Draft(self._before + encoded + self._after, self._tail)

    def lines(self, texts: Sequence[str], generation: int) -> bytes:
        """Return the chunks that append `texts`, from `generation` on, as lines of a log.

        `fits_line` is true of each of the texts.
        """
        before, after, tail, dumps = self._before, self._after, self._tail, orjson.dumps  # noqa: TID251
        if len(texts) == 1:
            return b"%b%b%b%d%b" % (before, dumps(texts[0]), after, generation, tail)
        return b"\n".join(
            [
                b"%b%b%b%d%b" % (before, dumps(text), after, at, tail)
                for at, text in enumerate(texts, generation)
            ]
        )


def fits_line(text: str) -> bool:
    """Return whether `text` has no half of a character, and no end of a line beyond ASCII."""
    return text.isascii() or text.isprintable() or _UNFIT.search(text) is None


def status_metadata(event: Json) -> Json:
    """Return the metadata of a status event; empty: `event` is none, or has none."""
    status = event.get("statusUpdate")
    metadata = status.get("metadata") if isinstance(status, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def status_parts(event: Json) -> list[Json]:
    """Return the Parts of an agent's message in a status event; empty: `event` has none.

    A client's message is in such an event, too. Metadata of its parts says nothing of the run.
    """
    message = ((event.get("statusUpdate") or {}).get("status") or {}).get("message") or {}
    content: list[Json] = message.get("parts") or []
    return [] if message.get("role") == "ROLE_USER" else content


def why_handed_back(event: Json) -> str | None:
    """Return why an attempt was handed back, or None if `event` does not record that."""
    why: str | None = status_metadata(event).get(HANDED_BACK)
    return why
