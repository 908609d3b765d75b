"""The fold of one run's log into AG-UI events: the same log gives the same frames, anywhere."""

from datetime import UTC, datetime, timedelta

from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace_gateway.protocols.agui.frame import Frame
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.run import Run
from headrace_gateway.protocols.agui.telling import Telling
from headrace_gateway.protocols.agui.view import View

RAW_SOURCE = "a2a"
"""Source of RAW events that hold the log's own, for clients that asked for them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Fold:
    """Reads the entries of a log from the run's input on, in order; returns frames.

    It is one AG-UI run: the first frame is RUN_STARTED, the last RUN_FINISHED or RUN_ERROR,
    and whatever begins ends before.
    """

    def __init__(self, number: int) -> None:
        """Fold the run whose input has generation `number`."""
        self._number = number
        self._output = Output()
        self._telling: Telling | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether the run has ended: nothing follows."""
        return self._over or (self._telling is not None and self._telling.over)

    @property
    def view(self) -> View | None:
        """What a client that read all frames holds; None before the input."""
        return self._telling.view if self._telling else None

    def read(self, entry: Entry) -> list[Frame]:
        """Return the frames of the next entry."""
        if self.over or entry.last_generation < self._number:
            return []
        self._output.at(_milliseconds(entry.time))
        for generation, event in enumerate(entry.parsed(), entry.generation):
            if generation >= self._number and not self.over:
                self._output.turn_to(generation)
                self._tell(event, generation, entry)
        self._mind_stamp(entry)
        return self._output.take()

    def broken(self, code: str, message: str) -> list[Frame]:
        """Return the frames that end a run whose log can be read no further.

        They are not in the log, and stand behind the last generation read: a client that returns
        with their cursor goes on where the log does.
        """
        if self._telling is None:
            self._output.emit("RUN_ERROR", message=message, code=code)
        elif not self.over:
            self._telling.lifecycle.broken(code, message)
        self._over = True
        return self._output.take()

    def _tell(self, event: Json, generation: int, entry: Entry) -> None:
        if self._telling is None:
            if generation == self._number:
                self._start(event)
        elif entry.stamp.run != self._number:
            self._telling.lifecycle.superseded()
            self._over = True
        else:
            self._raw(event)
            self._telling.tell(event, generation)

    def _raw(self, event: Json) -> None:
        if self._telling is not None and self._telling.wants_raw:
            self._output.emit("RAW", event=event, source=RAW_SOURCE)

    def _start(self, event: Json) -> None:
        self._telling = Telling(self._output, Run.of_input(event, self._number), self._number)
        self._telling.lifecycle.started()
        self._raw(event)

    def _mind_stamp(self, entry: Entry) -> None:
        """Note what only the entry's headers say."""
        if self._telling is None:
            return
        if entry.stamp.checkpoint is not None:
            self._telling.attempts.save(entry.last_generation)
        if entry.ends_run and not self.over:
            # Whatever said so could not be read; a client must not wait for ever.
            self._telling.lifecycle.broken("failed", "the run ended in a way that can't be read")
            self._over = True


def _milliseconds(time: str) -> int | None:
    return (datetime.fromisoformat(time) - _EPOCH) // _MILLISECOND if time else None
