"""Trying again what a dead letter stands for.

A run that was given up has ended its task with FAILED, and nothing follows a terminal state:
clients have been told, streams have ended. So its input is asked for again as a *new* task in the
same context, which names the failed one, as A2A has it. Its id is derived from the failed run:
however often, and by how many operators, a run is retried, there is one such task.

A run that could not be read and a notification that was not taken are sent once more as they were.
"""

import secrets
from dataclasses import dataclass

from headrace.jetstream.api import store_surely
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import Refused
from headrace.jetstream.headers import without_nats
from headrace.log import last_entry, replay
from headrace.model import events
from headrace.model.delegation import DELEGATION
from headrace.model.entry import Entry
from headrace.model.errors import Fenced, HeadraceError, LogLost, UndecodableMessage
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.messages import RunRequest
from headrace.model.task import FAILED, TaskKey, derive_task_id
from headrace.tasks.begin import first_input
from headrace.tasks.dead_letters.letters import Letter
from headrace.tasks.runs import RunRequests, without_input
from headrace.wait_for import ELECTION

_PASSING = (events.GENERATION, events.WAITING, events.SHOWN, events.START_BY, DELEGATION)
"""Metadata of an input that says something of its log, or of a parent that waits no more, and
nothing of the work."""


class NotRetryable(HeadraceError):
    """Nothing can be done again; the message says why."""

    code = "not_retryable"


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of a retry."""

    task: str | None
    """The task that does the work now, where it is a task's."""
    said: str


@dataclass(frozen=True, slots=True)
class _Failed:
    """A run that was given up, as its log has it."""

    key: TaskKey
    run: int
    request: RunRequest
    history: list[Json]
    """What was said before, and the run's input as the last."""
    metadata: Json


async def retry(bus: Bus, letter: Letter) -> Retried:
    """Have done again what `letter` stands for; the letter itself stays.

    Raises:
        NotRetryable: it can't be, or need not.
        EventTooLarge: the input and what was said before do not fit one message any more.
        BusUnavailable: NATS does not answer; nothing is done twice if this is tried again.
    """
    match letter.kind:
        case "run":
            return await _retry_run(bus, letter)
        case "run-request" | "push":
            own = without_nats(letter.content.headers)
            await _send_again(bus, letter.content.subject, letter.body, own)
            return Retried(None, f"sent again on {letter.content.subject}")
        case "entry":
            raise NotRetryable("a malformed log entry can't be retried")
        case _:
            raise NotRetryable("unknown kind of dead letter")


async def _retry_run(bus: Bus, letter: Letter) -> Retried:
    try:
        key, run = bus.subjects.key_of_run(letter.content.subject)
        request = RunRequest.decode(letter.content.subject, letter.body)
        priority = bus.subjects.priority_of_run(letter.content.subject)
    except UndecodableMessage as error:
        raise NotRetryable(str(error)) from error
    last = await last_entry(bus, key)
    if last is None or last.stamp.log != request.log:
        raise NotRetryable(f"the log of task {key.task} is gone")
    if last.stamp.run > run:
        raise NotRetryable(f"task {key.task} has continued with another input since")
    if not last.ends_run:
        await RunRequests(bus).publish(key, run, without_input(request), priority)
        return Retried(key.task, "it has not failed; workers are asked again")
    if last.stamp.state != FAILED:
        state = last.stamp.state.removeprefix("TASK_STATE_")
        raise NotRetryable(f"task {key.task} is {state} since")
    return await _begin_anew(bus, await _read(bus, key, run, request, last), priority)


async def _read(bus: Bus, key: TaskKey, run: int, request: RunRequest, last: Entry) -> _Failed:
    fold, metadata = TaskFold(), dict[str, object]()
    try:
        async for batch in replay(bus, key, 0, last.sequence):
            for entry in batch:
                for generation, event in enumerate(entry.parsed(), entry.generation):
                    if generation <= run:
                        fold.apply(event)
                    if generation == run:
                        metadata = next(iter(event.values())).get("metadata") or {}
    except LogLost as loss:
        raise NotRetryable(f"the beginning of task {key.task} is gone: {loss}") from loss
    task = fold.task()
    said = [*task.get("history", []), *([m] if (m := task["status"].get("message")) else [])]
    if not said:
        raise NotRetryable(f"the input of task {key.task} holds no message")
    metadata = {**task["metadata"], **metadata}
    return _Failed(
        key, run, request, said, {k: v for k, v in metadata.items() if k not in _PASSING}
    )


async def _begin_anew(bus: Bus, failed: _Failed, priority: str) -> Retried:
    old, request = failed.key, failed.request
    key = TaskKey(old.tenant, old.agent, derive_task_id(old.shard, old.task, f"retry {failed.run}"))
    *before, message = failed.history
    references = dict.fromkeys([*message.get("referenceTaskIds", []), old.task])
    metadata = failed.metadata | {
        # Its client can't be waiting for an answer that is a bare Message.
        events.SHOWN: True,
        events.RETRY_OF: {"task": old.task, "generation": failed.run},
    }
    writer = f"retry-{secrets.token_hex(6)}"
    message = message | {"referenceTaskIds": list(references)}
    again = first_input(
        bus,
        key,
        request.context,
        message,
        metadata,
        owner=request.owner,
        writer=writer,
        history=before,
    )
    try:
        appended = await again.append(ELECTION)
    except Fenced:
        return await _was_retried(bus, key, request, priority)
    await RunRequests(bus).publish(key, 1, again.run_request(appended), priority)
    return Retried(key.task, f"runs again as task {key.task}")


async def _was_retried(bus: Bus, key: TaskKey, request: RunRequest, priority: str) -> Retried:
    last = await last_entry(bus, key)
    if last is not None and last.stamp.run == 1 and not last.ends_run:
        again = without_input(request.model_copy(update={"log": last.stamp.log}))
        await RunRequests(bus).publish(key, 1, again, priority)
    return Retried(key.task, f"was retried before, as task {key.task}")


async def _send_again(
    bus: Bus, subject: str, body: bytes, headers: dict[str, str] | None = None
) -> None:
    try:
        await store_surely(bus, subject, body, headers or None)
    except Refused as refused:
        if not refused.is_duplicate:
            raise
