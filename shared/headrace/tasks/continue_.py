"""Continuing a task: its next input, after a run ended or while one is running."""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log import AppendResult, LogWriter
from headrace.model import events
from headrace.model.entry import Entry, Stamp
from headrace.model.events import Draft, Json, timestamp
from headrace.model.run import Run
from headrace.model.task import SUBMITTED, TaskKey
from headrace.tasks.begin import Input
from headrace.tasks.delayed_runs import start_of


def next_input(
    bus: Bus, run: Run, sequence: int, message: Json, metadata: Json | None, *, writer: str
) -> Input:
    """Return the input that begins `run` of a task that waits for input.

    Its log ends with the generation before and at stream sequence `sequence`. The terms of `run`
    are the task's; `metadata` states those of this input.
    """
    key, generation = run.key, run.generation
    draft = submitted(key.task, run.context, message, metadata)
    stamp = Stamp(run.log, generation, writer, SUBMITTED, generation)
    log = LogWriter(bus, key, sequence=sequence, generation=generation - 1)
    return Input(draft, stamp, run._replace(terms=run.terms.updated(metadata)), log)


def behind_question(status: Json) -> Json:
    """Return the metadata for the answer to the question that is a task's `status`.

    Empty: no message was queued before the question.
    """
    waiting = ((status.get("message") or {}).get("metadata") or {}).get(events.WAITING)
    return {events.WAITING: waiting, events.IS_ANSWER: True} if waiting else {}


def submitted(task: str, context: str, message: Json, metadata: Json | None) -> Draft:
    """Return the event that makes `message` a task's next input."""
    return events.status_update(task, context, SUBMITTED, message, metadata)


@dataclass(frozen=True, slots=True)
class QueuedInput:
    """A message for a task with a running run."""

    name: str
    """Name that identifies the message in the log, for the holder and for repetitions."""
    context: str
    message: Json
    metadata: Json | None


async def queue_input(
    bus: Bus, key: TaskKey, last: Entry, queued: QueuedInput, timeout: float
) -> AppendResult:
    """Append a message for the running run after `last`, in place of its holder.

    A run that is not due yet stays so: the last entry states when it is.

    Raises:
        Fenced: Another entry is stored there.
        LogLost, LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `LogWriter.append`.
    """
    now = last.stamp
    generation = last.last_generation + 1
    stamp = Stamp(now.log, generation, queued.name, now.state, now.run, now.attempt)
    start = start_of(last)
    draft = events.queued(
        *(key.task, queued.context, now.state, queued.message, queued.metadata, queued.name),
        start_at=None if start is None else timestamp(start),
    )
    return await LogWriter.after(bus, key, last).append([draft], stamp, timeout)


def generation_of_input(entry: Entry, name: str) -> int | None:
    """Return the generation of the input `name` in `entry`, as a run's input or queued."""
    if entry.stamp.writer == name:
        return entry.generation
    for generation, event in enumerate(entry.parsed(), entry.generation):
        if events.status_metadata(event).get(events.INPUT_ID) == name:
            return generation
    return None
