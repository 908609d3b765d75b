"""How a task is shown in the dialect."""

from collections.abc import Callable, Sequence

from headrace_gateway.feeds import Block
from headrace_gateway.protocols.hector.asking import Place
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.told import Told
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer


class HectorRenderer(Renderer):
    """Shows one task to one client; ends with `ending`, or with an error event."""

    __slots__ = ("_encode", "_ending", "_fold", "_interrupted", "_place", "_start")

    def __init__(
        self,
        start: int,
        place: tuple[int, int] | None,
        encode: Callable[[list[Told]], Messages],
        ending: Messages = (),
        *,
        interrupted: Callable[[Interruption], Messages] | None = None,
    ) -> None:
        """Fold from behind generation `start` on; show what stands behind `place`.

        `interrupted` says an early end where the dialect's own error event does not.
        """
        self._interrupted = interrupted
        self._start, self._place = start, place or (0, 0)
        self._encode, self._ending, self._fold = encode, ending, HectorFold()

    def render(self, blocks: Sequence[Block], after: int) -> Messages:  # noqa: ARG002 - it folds all
        """Return the next events."""
        told = [one for block in blocks for one in self._fold.read(block.entry, self._start)]
        return self._encode([one for one in told if one.place > self._place])

    def ending(self) -> Messages:
        """Return what says that the stream is over."""
        return self._ending

    def interrupted(self, why: Interruption) -> Messages:
        """Return what says that the stream ends early."""
        if self._interrupted is not None:
            return self._interrupted(why)
        code = "log_lost" if why.cause is Cause.LOST else "disconnected"
        return self._encode(self._fold.broken(code, why.reason))


def behind(place: Place | None, cursor: str) -> tuple[int, int] | None:
    """Return behind which place to show, by a cursor of the dialect or one of A2A's."""
    if place is not None:
        return place.generation, place.number
    generation = cursor.rpartition(":")[2]
    return (int(generation), 10**9) if generation.isdecimal() else None
