"""Who writes an attempt's entries."""

from dataclasses import dataclass

from headrace.entry import Stamp
from headrace.task import WORKING


@dataclass(frozen=True, slots=True)
class Authorship:
    """What the stamps of one attempt have in common."""

    log: str
    writer: str
    leg: int
    attempt: int

    def stamp(self, generation: int, state: str = WORKING, checkpoint: str | None = None) -> Stamp:
        """Return the stamp of an entry that begins at `generation`."""
        return Stamp(
            self.log,
            generation,
            self.writer,
            state,
            self.leg,
            self.attempt,
            checkpoint=checkpoint,
        )
