"""What all stamps of one attempt have in common."""

from dataclasses import dataclass

from headrace.model.entry import BARE_MESSAGE, Entry, Stamp
from headrace.model.task import RUN_ENDED, WORKING

_ENDING = RUN_ENDED | {BARE_MESSAGE}


@dataclass(frozen=True, slots=True)
class StampBase:
    """The parts that all stamps of one attempt have in common."""

    log: str
    writer: str
    run: int
    attempt: int
    owner: str | None = None
    """Owner of the task, repeated in entries that end a run because views are built from these."""

    def holds_after(self, entry: Entry) -> bool:
        """Return whether the attempt still holds its task after another writer's `entry`.

        A writer that takes over a task starts another attempt or run, or ends this one. A gateway
        that queues a message repeats the stamp of the tail.
        """
        stamp = entry.stamp
        same = (stamp.log, stamp.run, stamp.attempt) == (self.log, self.run, self.attempt)
        return same and not entry.ends_run

    def stamp(self, generation: int, state: str = WORKING, checkpoint: str | None = None) -> Stamp:
        """Return the stamp of an entry that starts at `generation`."""
        return Stamp(
            self.log,
            generation,
            self.writer,
            state,
            self.run,
            self.attempt,
            self.owner if state in _ENDING else None,
            checkpoint,
        )
