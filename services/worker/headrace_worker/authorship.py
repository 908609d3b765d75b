"""Who writes an attempt's entries."""

from dataclasses import dataclass

from headrace.model.entry import ANSWERED, Entry, Stamp
from headrace.model.task import RUN_ENDED, WORKING

_ENDING = RUN_ENDED | {ANSWERED}


@dataclass(frozen=True, slots=True)
class Authorship:
    """What the stamps of one attempt have in common."""

    log: str
    writer: str
    run: int
    attempt: int
    owner: str | None = None
    """Whose task it is, which entries that end a run say again: a view is built from these."""

    def holds_after(self, entry: Entry) -> bool:
        """Tell whether the attempt still holds its task after `entry`, appended by somebody else.

        Who takes a task away from its holder begins another attempt or run, or ends this one. A
        gateway that queues a message over the holder's head repeats the stamp of the tail.
        """
        stamp = entry.stamp
        same = (stamp.log, stamp.run, stamp.attempt) == (self.log, self.run, self.attempt)
        return same and not entry.ends_run

    def stamp(self, generation: int, state: str = WORKING, checkpoint: str | None = None) -> Stamp:
        """Return the stamp of an entry that begins at `generation`."""
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
