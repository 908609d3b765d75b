"""Queueing a message for a task's active run: through the run's holder, or by a direct append."""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.entry import Entry
from headrace.model.errors import (
    BusUnavailable,
    EventTooLarge,
    Fenced,
    OutcomeUnknown,
    TaskUnknown,
)
from headrace.model.messages import Control, HolderReply, TaskFound
from headrace.model.task import TaskKey
from headrace.tasks.continue_ import QueuedInput, generation_of_input, queue_input
from headrace.tasks.holder import ask_holder
from headrace.wait_for import ELECTION
from headrace_gateway.refusals import GenerationMismatch, TaskBusy

HOLDER_TIMEOUT = 2.0
"""Seconds that a holder has to append a message; then the gateway appends it."""

_APPENDS = 20
"""Maximum number of appends of one message while other writers append too."""


@dataclass(frozen=True, slots=True)
class QueuedAppend:
    """A message to queue for a task's active run.

    Either way the message is in the log as *queued*, under its own name, so any reader of the log
    can see whether it was accepted. A holder that is killed with the message loses nothing: its
    append and the gateway's compare-and-set cannot both succeed after the same last entry. A holder
    that is running finds the message in the log, continues after it, and does not queue the same
    name again.
    """

    bus: Bus
    key: TaskKey
    found: TaskFound
    """The task as it was when the message was checked."""
    queued: QueuedInput
    if_generation: int | None = None
    """The generation that the task must be at; None for any."""

    @property
    def context(self) -> str:
        """The task's context."""
        return self.queued.context

    async def store(self) -> int:
        """Return the message's generation in the log; a repetition queues it once.

        Raises:
            Fenced: the run is over; read the task again.
            TaskBusy: the agent accepts no messages during a run, or other writers keep appending.
            GenerationMismatch: the task is not at the generation that the message requires.
            EventTooLarge: the message does not fit a bus message.
            TaskUnknown: the task is gone.
            OutcomeUnknown: it is unknown whether the message has been stored.
        """
        control = Control(
            ask="input",
            input=self.queued.name,
            message=self.queued.message,
            metadata=self.queued.metadata or {},
            if_generation=self.if_generation,
            read_up_to=self.found.generation,
        )
        if (size := len(control.encode())) > self.bus.max_payload:
            raise EventTooLarge(size, self.bus.max_payload)
        try:
            holding = await ask_holder(self.bus, self.key, control, HOLDER_TIMEOUT)
            if holding is None or holding.refused in {"blocked", "new_run"}:
                return await self._append()
        except BusUnavailable as error:
            # A holder may have received the request, and may still append the message later.
            raise OutcomeUnknown(str(error)) from error
        return self._generation_in(holding, size)

    def _generation_in(self, holding: HolderReply, size: int) -> int:
        """Return the generation from a holder's reply.

        Raises:
            Fenced, TaskBusy, GenerationMismatch, EventTooLarge: the holder refused the message.
        """
        match holding.refused:
            case "generation":
                raise GenerationMismatch(self.key.task, holding.generation or 0)
            case "policy":
                busy = "the task is active, and its agent accepts no messages while it runs"
                raise TaskBusy(busy)
            case "too_large":
                raise EventTooLarge(size, size)
        if holding.generation is None:
            raise self._run_over()
        return holding.generation

    def _run_over(self) -> Fenced:
        return Fenced(f"run of {self.key.task} ended before it read the message")

    async def _append(self) -> int:
        key, looked = self.key, self.found.sequence
        for _ in range(_APPENDS):
            last = await last_entry(self.bus, key)
            if last is None:
                raise TaskUnknown
            if (generation := await self._find(looked, last)) is not None:
                return generation
            if last.ends_run:
                raise self._run_over()
            if self.if_generation not in (None, last.last_generation):
                raise GenerationMismatch(key.task, last.last_generation)
            looked = last.sequence
            try:
                return (await queue_input(self.bus, key, last, self.queued, ELECTION)).generation
            except Fenced:
                # Another writer appended first, possibly the holder with this message.
                continue
        raise TaskBusy(f"too many concurrent changes to task {key.task}")

    async def _find(self, after: int, last: Entry) -> int | None:
        """Return the generation of this message after stream sequence `after`."""
        async for batch in replay(self.bus, self.key, after, last.sequence):
            for entry in batch:
                if (generation := generation_of_input(entry, self.queued.name)) is not None:
                    return generation
        return None
