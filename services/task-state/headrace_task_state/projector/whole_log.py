"""All that one log says of its task, read directly: not message by message as the range goes on."""

from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log.read import replay_as
from headrace.model.errors import LogLost, UndecodableMessage
from headrace.model.messages import DeadLetter
from headrace.model.task import TaskKey
from headrace_task_state.projector.batches import Batches
from headrace_task_state.projector.consumer import Arrival, read_directly
from headrace_task_state.store import Progress, TaskChange


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log up to some entry."""

    task: TaskChange | None
    """None: it makes no task; its beginning is gone, or a tombstone stands in its place."""
    letters: list[DeadLetter]
    """What is to be said of messages that were stepped over."""
    begun: int = 0
    """Stream sequence of the entry that begins it; 0: there is none."""


async def read_whole_log(bus: Bus, key: TaskKey, head: int, timeout: float) -> WholeLog:
    """Return the log up to stream sequence `head`, one of its own; `timeout` as for `Batches`.

    Raises:
        BusUnavailable: no copy of the log answers.
    """
    arrivals: list[Arrival] = []
    try:
        async for some in replay_as(bus, key, (0, head), read_directly):
            arrivals += some
    except LogLost:
        return WholeLog(None, [])
    batch = Batches(bus.subjects, timeout).build(arrivals, Progress())
    tasks = [one for one in batch.changes if isinstance(one, TaskChange) and one.begins]
    if not tasks:
        return WholeLog(None, batch.letters)
    return WholeLog(tasks[-1], batch.letters, next(filter(None, map(_begun, arrivals))))


def _begun(arrival: Arrival) -> int:
    """Return the sequence of an entry that begins a log; 0: it does not."""
    try:
        return arrival.sequence if arrival.stamp().generation == 1 else 0
    except UndecodableMessage:
        return 0
