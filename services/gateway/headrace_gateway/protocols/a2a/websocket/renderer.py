"""How one task is shown among those of a WebSocket."""

from collections.abc import Callable, Sequence

from headrace.model.events import Json
from headrace_gateway.feeds import Block, EntryRenderer
from headrace_gateway.problems import Problem, problem_of_interruption
from headrace_gateway.protocols.a2a.websocket.envelope import Envelope
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer

_BY_CLOSING = {Cause.STOPPING, Cause.STALLED}
"""What the connection's close frame says for all of its streams."""


class SocketRenderer(Renderer):
    """Shows each event as one message."""

    __slots__ = ("_entry_renderer", "_envelope", "_opening", "_task")

    def __init__(
        self, envelope: Envelope, entry_renderer: EntryRenderer, task: str, opening: Messages = ()
    ) -> None:
        """Show events as `entry_renderer` has them, in `envelope`, behind `opening`."""
        self._envelope, self._entry_renderer, self._task = envelope, entry_renderer, task
        self._opening = opening

    def opening(self) -> Messages:
        """Return the opening."""
        opening, self._opening = self._opening, ()
        return opening

    def render(self, blocks: Sequence[Block], after: int) -> Messages:
        """Return one message for each event."""
        head = self._envelope.head
        return [
            head + piece for block in blocks for piece in block.pieces(self._entry_renderer, after)
        ]

    def ending(self) -> Messages:
        """Return what says that nothing more comes."""
        return (self._envelope.end(),)

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error, unless the connection closes."""
        return interrupted(self._envelope, why, self._task)


def interrupted(envelope: Envelope, why: Interruption, task: str) -> Messages:
    """Return an error, unless the connection closes and says why."""
    if why.cause in _BY_CLOSING:
        return ()
    problem: Problem = problem_of_interruption(why, task)
    return (envelope.error(problem),)


def folded_message(envelope: Envelope, *, recovered: bool) -> Callable[[str, Json], bytes]:
    """Return what puts a cursor and an event in a message; the first one tells of a loss."""
    is_lost = not recovered

    def message(cursor: str, event: Json) -> bytes:
        nonlocal is_lost
        lost, is_lost = is_lost, False
        return envelope.message(cursor, event, lost=lost)

    return message
