"""Everything that one log contains about its task, read without the range's consumer."""

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
    """A log up to one of its entries."""

    task: TaskChange | None
    """None: the log makes no task, because its beginning is gone or a tombstone replaced it."""
    letters: list[DeadLetter]
    """Letters about messages that were skipped."""
    first_sequence: int = 0
    """Stream sequence of the log's first entry; 0: it is gone."""
    continues: bool = False
    """Whether there is more behind the log's end."""


async def read_whole_log(
    bus: Bus, key: TaskKey, head: int, timeout: float, silence: float
) -> WholeLog:
    """Return the log up to its entry at stream sequence `head`; the rest as for `Batches`.

    Raises:
        BusUnavailable: no copy of the log answers.
    """
    arrivals: list[Arrival] = []
    try:
        async for some in replay_as(bus, key, (0, head), read_directly):
            arrivals += some
    except LogLost:
        return WholeLog(None, [])
    batch = Batches(bus.subjects, timeout, silence).build(arrivals, Progress())
    tasks = [one for one in batch.changes if isinstance(one, TaskChange) and one.begins]
    if not tasks:
        return WholeLog(None, batch.letters)
    first = next(filter(None, map(_first_sequence, arrivals)))
    return WholeLog(tasks[-1], batch.letters, first, continues=key in batch.continued)


def _first_sequence(arrival: Arrival) -> int:
    """Return the sequence of an entry that begins a log; 0: it does not."""
    try:
        return arrival.sequence if arrival.stamp().generation == 1 else 0
    except UndecodableMessage:
        return 0
