"""Beginning a task: the first event of its log, and its run request."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.jetstream.connection import Bus
from headrace.log import AppendResult, LogWriter
from headrace.model import events
from headrace.model.entry import Stamp
from headrace.model.events import Draft, Json
from headrace.model.run import Run, RunTerms
from headrace.model.task import INPUT_REQUIRED, SUBMITTED, TaskKey, mint_log_id

CARRIED = 16 * 1024
"""Maximum size in bytes of an input that its run request carries. Larger ones are not stored
twice."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input to append to a log, and its run."""

    draft: Draft
    stamp: Stamp
    run: Run
    log: LogWriter
    """The writer, positioned where the input is appended."""
    question: Draft | None = None
    """What its sender is asked instead of a run, stored with it."""

    @property
    def key(self) -> TaskKey:
        """The key of the log."""
        return self.log.key

    async def append(self, timeout: float) -> AppendResult:
        """Append the input. A repetition after OutcomeUnknown is the same append.

        Raises:
            FencedBy: Another entry is stored at its position.
            LogLost, LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: As `LogWriter.append`.
        """
        drafts = [self.draft] if self.question is None else [self.draft, self.question]
        return await self.log.finish(self.log.send(drafts, self.stamp), timeout)

    def line(self) -> bytes:
        """Return the event's line in the log."""
        return self.draft.line(self.stamp.generation)

    def stored_run(self, appended: AppendResult) -> Run:
        """Return the run of the appended input, which it carries up to `CARRIED` bytes."""
        if len(line := self.draft.line(self.stamp.generation)) > CARRIED:
            return self.run
        return self.run._replace(input=line.decode(), sequence=appended.sequence)


def first_input(  # noqa: PLR0913 - what a task is begun with
    bus: Bus,
    key: TaskKey,
    context: str,
    message: Json,
    metadata: Json | None,
    *,
    owner: str,
    writer: str,
    history: Sequence[Json] = (),
) -> Input:
    """Return the input that begins the log at `key`: `message`, after the earlier `history`.

    `metadata` states the run's terms.
    """
    stamp = Stamp(mint_log_id(), 1, writer, SUBMITTED, 1, owner=owner)
    draft = events.task_submitted(key.task, context, message, metadata, history)
    run = Run(key, 1, stamp.log, context, owner, RunTerms().updated(metadata))
    return Input(draft, stamp, run, LogWriter(bus, key))


def asking(task_input: Input, reason: str) -> Input:
    """Return the input without a run: its task waits for its user, and `reason` is the question.

    The next message begins a run that has both in its history.
    """
    message = {
        "messageId": f"quota-{secrets.token_hex(5)}",
        "role": "ROLE_AGENT",
        "parts": [{"text": reason}],
    }
    question = events.status_update(
        task_input.key.task, task_input.run.context, INPUT_REQUIRED, message
    )
    stamp = task_input.stamp._replace(state=INPUT_REQUIRED)
    return replace(task_input, stamp=stamp, question=question)
