"""One client's frames of one run."""

from headrace.model.entry import Entry
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import Frame
from headrace_gateway.protocols.agui.joins import FromStart, Join


class RunFrames:
    """Folds a run and hands out what its client gets."""

    def __init__(self, number: int, join: Join | None = None) -> None:
        """Fold the run whose input has generation `number`; the stream begins with `join`."""
        self.number = number
        self._fold, self._join = Fold(number), join or FromStart()

    @property
    def over(self) -> bool:
        """Whether the run has ended: nothing follows."""
        return self._fold.over

    def read(self, entry: Entry) -> list[Frame]:
        """Return the client's frames of the log's next entry."""
        frames = self._fold.read(entry)
        return self._join.admit(frames, self._fold, entry.last_generation)

    def broken(self, code: str, message: str) -> list[Frame]:
        """Return the frames that end a stream whose log can be read no further."""
        frames = self._fold.broken(code, message)
        # Who has been sent nothing has nothing open.
        return frames if self._join.begun else frames[-1:]
