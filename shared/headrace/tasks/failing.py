"""Failing a task that nothing else ends, as operators do."""

from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError
from headrace.model.task import FAILED, TaskKey
from headrace.tasks.end import end_task, writer_of


class AlreadyOver(HeadraceError):
    """The task has ended; the message says how."""

    code = "already_over"


async def fail_task(bus: Bus, key: TaskKey, reason: str) -> None:
    """Append FAILED with `reason`, a text that the task's client reads.

    A holder is not asked: it is fenced, and gives the leg up when it sees that it is.

    Raises:
        AlreadyOver: the task has reached a terminal state; it stays with that.
        TaskUnknown, LogLost, BusUnavailable: as `end_task`.
    """
    before = await end_task(bus, key, FAILED, writer_of("operator"), reason)
    if before is not None:
        state = before.stamp.state.removeprefix("TASK_STATE_")
        raise AlreadyOver(f"task {key.task} is over: {state}")
