"""A message to a task at work: into its log, by its holder or over the holder's head.

Either way it stands there as *queued*, under a name of its own, so whoever looks at the log knows
whether it was accepted. That makes a holder that dies with the message in its hands no trouble: its
append and this gateway's compare-and-set cannot both succeed behind the same tail. A holder that
lives finds the message there, goes on behind it, and queues none of that name itself.
"""

import secrets

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model import events
from headrace.model.entry import Entry
from headrace.model.errors import BusUnavailable, EventTooLarge, Fenced, OutcomeUnknown, TaskUnknown
from headrace.model.messages import Control, Holding, TaskFound
from headrace.model.task import TaskKey
from headrace.tasks.continue_ import QueuedInput, queue_input
from headrace.tasks.holder import ask_holder
from headrace.wait_for import ELECTION
from headrace_gateway.refusals import GenerationMismatch, TaskBusy
from headrace_gateway.tasks.accepted import FollowUp

HOLDER_TIMEOUT = 2.0
"""Seconds that a holder has to put a message into the log; then the gateway does."""

_ROUNDS = 20


class HandingIn:
    """Hands messages to tasks at work."""

    def __init__(self, bus: Bus) -> None:
        """Hand over on `bus`."""
        self._bus = bus

    async def hand_in(
        self, key: TaskKey, found: TaskFound, asked: FollowUp, name: str
    ) -> int | None:
        """Return the message's generation in the log; None: the run is over, so look again.

        Handed in again under the same `name`, it is the same message.

        Raises:
            TaskBusy: the agent takes none while it is at work, or others keep appending.
            GenerationMismatch: the task is not where the message wants it.
            EventTooLarge: it does not fit a bus message.
            TaskUnknown: the task is gone.
            OutcomeUnknown: it is not known whether the holder or the log has taken it.
        """
        control = Control(
            ask="input",
            input=name,
            message=asked.message,
            metadata=asked.metadata or {},
            if_generation=asked.if_generation,
        )
        if (size := len(control.encode())) > self._bus.max_payload:
            raise EventTooLarge(size, self._bus.max_payload)
        try:
            holding = await ask_holder(self._bus, key, control, HOLDER_TIMEOUT)
            if holding is not None and holding.refused != "blocked":
                return _answered(key.task, holding, size)
            return await self._append(key, found, asked, name)
        except BusUnavailable as trouble:
            # A holder may have been asked, and append it however late.
            raise OutcomeUnknown(str(trouble)) from trouble

    async def _append(
        self, key: TaskKey, found: TaskFound, asked: FollowUp, name: str
    ) -> int | None:
        looked, context = found.sequence, found.task["contextId"]
        for _ in range(_ROUNDS):
            last = await last_entry(self._bus, key)
            if last is None:
                raise TaskUnknown
            if (generation := await self._find(key, name, looked, last)) is not None:
                return generation
            if last.ends_run:
                return None
            if asked.if_generation not in (None, last.last_generation):
                raise GenerationMismatch(key.task, last.last_generation)
            looked, queued = (
                last.sequence,
                QueuedInput(name, context, asked.message, asked.metadata),
            )
            try:
                return (await queue_input(self._bus, key, last, queued, ELECTION)).generation
            except Fenced:
                # By the holder, with this message perhaps.
                continue
        raise TaskBusy(f"others keep appending to task {key.task}")

    async def _find(self, key: TaskKey, name: str, after: int, last: Entry) -> int | None:
        """Return where the message named `name` stands behind stream sequence `after`."""
        async for batch in replay(self._bus, key, after, last.sequence):
            for entry in batch:
                for generation, event in enumerate(entry.parsed(), entry.generation):
                    metadata = event.get("statusUpdate", {}).get("metadata", {})
                    if metadata.get(events.INPUT_ID) == name:
                        return generation
        return None


def _answered(task: str, holding: Holding, size: int) -> int | None:
    """Return what a holder answered.

    Raises:
        TaskBusy, GenerationMismatch, EventTooLarge: it refused.
    """
    match holding.refused:
        case "generation":
            raise GenerationMismatch(task, holding.generation or 0)
        case "policy":
            raise TaskBusy("the task is being worked on, and its agent takes no message meanwhile")
        case "too_large":
            raise EventTooLarge(size, size)
        case _:
            return holding.generation


def busy(task: str) -> TaskBusy:
    """Return why a message is refused that the task takes only when it waits for input."""
    return TaskBusy(f"task {task} is being worked on; wait until it asks for input")


def new_name() -> str:
    """Return a name for one message."""
    return f"input-{secrets.token_hex(12)}"
