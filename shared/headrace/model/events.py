"""Building the events of a log: A2A v1.0 ``StreamResponse`` objects as JSON lines.

A generation is known only when the event is appended, so a built event is a *draft*: the bytes
before its generation and the bytes after.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from headrace.model.task import SUBMITTED

GENERATION = "headrace.generation"
"""Metadata key of every event's generation (the SDK's clients drop SSE ids)."""
ATTEMPT = "headrace.attempt"
"""Metadata key of a WORKING status that begins an attempt."""
WORKER = "headrace.worker"
"""Metadata key beside `ATTEMPT`: which worker holds the run."""
DISCARDED_AFTER = "headrace.discardedAfter"
"""Metadata key beside `ATTEMPT` from attempt 2 on: every fold drops this run's output after that
generation and before this event."""
HANDED_BACK = "headrace.handedBack"
"""Metadata key of a WORKING status that ends an attempt but not its run: somebody else takes it up.
Its value is `LEAVING` or `TRYING_AGAIN`; only the latter counts as a failed attempt."""
LEAVING = "leaving"
"""The worker leaves the fleet."""
TRYING_AGAIN = "retry"
"""The agent asks for another attempt after a pause."""
QUEUED = "headrace.queued"
"""Metadata key of a status that changes nothing but accepts a message to a task at work: an object
with the user's ``message`` and the ``metadata`` that came with it. It is no input yet."""
INPUT_ID = "headrace.inputId"
"""Metadata key beside `QUEUED`: the name under which the message was handed in, once."""
TAKEN = "headrace.taken"
"""Metadata key of a WORKING status with the user's message: the agent at work takes the one queued
with that generation."""
WAITING = "headrace.waiting"
"""Metadata key of an input: generations, before it, of the messages that are still queued."""
RETRACTED = "headrace.retracted"
"""Metadata key of an artifact update that empties what only a discarded attempt made, for clients
that hold it. Folds ignore the event: they have dropped the artifact."""
INPUT_SCHEMA = "headrace.inputSchema"
"""Metadata key of an INPUT_REQUIRED status's message: JSON Schema of the answer."""
SHOWN = "headrace.shown"
"""Metadata key of generation 1, true: its client has been given the Task at once, so that a bare
Message becomes COMPLETED's."""
RETRY_OF = "headrace.retryOf"
"""Metadata key of generation 1: the ``task`` and input (``generation``) that failed, which an
operator has asked for again."""
TRACEPARENT = "headrace.traceparent"
"""Metadata key of an input: the W3C trace context of the request that brought it."""
EXTENSIONS = "headrace.extensions"
"""Metadata key of an input: URIs of the agent's own extensions that its request activated."""
ACCEPTED_MODES = "headrace.acceptedOutputModes"
"""Metadata key of an input: the media types that its client wants answers in."""
AGUI = "headrace.agui"
"""Metadata key of an input that came as AG-UI: ``runId``, ``protocolVersion``, ``parentRunId``,
``state``, ``tools``, ``context``, ``forwardedProps``, ``resume`` and ``messages``, each as the
client sent it, but that large files of messages are links. The message that became the input's own
stands there without its content."""
PRIORITY = "headrace.priority"
"""Metadata key of an input: the class in which its run waits, where that is not the usual one."""
START_BY = "headrace.startBy"
"""Metadata key of an input, RFC 3339: if no worker has begun its run by then, none shall, and the
task is REJECTED."""
ENDING = "headrace.ending"
"""Metadata key of a status: the state in which the holder is about to end the run, said before it
cancels the run's children. Whoever takes over what was to be CANCELED cancels it, too."""
BEHIND = "headrace.behind"
"""Metadata key of generation 1: ids of tasks of the same agent. No worker begins this one while any
of them is SUBMITTED or WORKING."""
RECOVERED = "headrace.recovered"
"""Metadata key of a Task snapshot that stands for a lost past."""

_MARK = "\ue000headrace-text\ue001"

type Json = dict[str, Any]

INTERRUPTS = "headrace.interrupts"
"""AG-UI Interrupts: what is asked, each with an ``id`` that the answer names."""
PENDING_TOOL_CALLS = "headrace.pendingToolCalls"
"""Ids of the tool calls that the client carries out; the run then ends with success, and their
results come with the next one."""


class Draft(NamedTuple):
    """An event without its generation."""

    head: bytes
    tail: bytes

    def line(self, generation: int) -> bytes:
        """Return the event's line in the log."""
        return b"%b%d%b" % (self.head, generation, self.tail)

    @property
    def size(self) -> int:
        """Bytes that the line takes, at most."""
        return len(self.head) + len(self.tail) + 20


def now() -> str:
    """Return the time as A2A writes it: RFC 3339, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def draft(kind: str, body: Json, metadata: Json | None = None) -> Draft:
    """Return ``{kind: {**body, "metadata": {**metadata, GENERATION: …}}}`` as a draft.

    A generation in `metadata` (of a child's event, relayed) gives way to the event's own.

    Raises:
        TypeError: something in it is not JSON.
    """
    metadata = {k: v for k, v in metadata.items() if k != GENERATION} if metadata else {}
    inner = orjson.dumps(metadata)[1:-1]
    head = b'{"%b":%b,"metadata":{%b%b"%b":' % (
        kind.encode(),
        orjson.dumps(body)[:-1],
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
    """Generation 1: an accepted message made a task; `before` was said earlier, elsewhere."""
    history = [{**said, "taskId": task, "contextId": context} for said in (*before, message)]
    status = {"state": SUBMITTED, "timestamp": now()}
    body = {"id": task, "contextId": context, "status": status, "history": history}
    return draft("task", body, metadata)


def status_update(
    task: str, context: str, state: str, message: Json | None = None, metadata: Json | None = None
) -> Draft:
    """A change of state, or an utterance of the agent that is no answer text."""
    status: Json = {"state": state, "timestamp": now()}
    if message is not None:
        status["message"] = {**message, "taskId": task, "contextId": context}
    return draft("statusUpdate", {"taskId": task, "contextId": context, "status": status}, metadata)


def queued(  # noqa: PLR0917  # what such an event says
    task: str, context: str, state: str, message: Json, metadata: Json | None, name: str
) -> Draft:
    """A message that waits for its turn, handed in as `name`; the task stays in `state`."""
    held = {"message": message, "metadata": metadata or {}}
    return status_update(task, context, state, None, {QUEUED: held, INPUT_ID: name})


def artifact_update(
    task: str,
    context: str,
    artifact: Json,
    *,
    append: bool = False,
    last_chunk: bool = False,
    metadata: Json | None = None,
) -> Draft:
    """A piece of a result; the first piece of an artifact is without `append`."""
    body: Json = {"taskId": task, "contextId": context, "artifact": artifact}
    if append:
        body["append"] = True
    if last_chunk:
        body["lastChunk"] = True
    return draft("artifactUpdate", body, metadata)


def bare_message(context: str, message: Json) -> Draft:
    """An answer that is a Message and no task."""
    body = {key: value for key, value in message.items() if key != "metadata"}
    body = {**body, "contextId": context}
    return draft("message", body, message.get("metadata"))


class TextChunks:
    """Drafts of one artifact's text chunks, all but the text rendered once.

    A chunk costs one string encoding: about half a microsecond.
    """

    def __init__(self, task: str, context: str, artifact_id: str, metadata: Json) -> None:
        """Render the frame of every chunk after the first; `metadata` goes on each part."""
        frame = artifact_update(
            task,
            context,
            {"artifactId": artifact_id, "parts": [{"text": _MARK, "metadata": metadata}]},
            append=True,
        )
        self._before, self._after = frame.head.split(orjson.dumps(_MARK), 1)
        self._tail = frame.tail

    def draft(self, text: str) -> Draft:
        """Return the chunk that appends `text`.

        Raises:
            TypeError: `text` is no string or not encodable (a lone surrogate).
        """
        return Draft(self._before + orjson.dumps(text) + self._after, self._tail)
