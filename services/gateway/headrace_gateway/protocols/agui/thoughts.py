"""Reasoning for clients older than REASONING events, which ask for THINKING events instead.

These name nothing: the run has one block open at a time, its subagents' included, and none becomes
a message. A block that goes on after another one has begun is opened again.
"""

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.parts import TITLE
from headrace_gateway.protocols.agui.output import Event, OpenItem, Output

_USE = "thinking"
_CLOSING: tuple[Event, ...] = (("THINKING_TEXT_MESSAGE_END", {}), ("THINKING_END", {}))


class Thoughts:
    """Turns the pieces of reasoning into THINKING events."""

    def __init__(self, output: Output) -> None:
        """Say them to `output`."""
        self._output = output

    def piece(self, part: Json, block: str) -> None:
        """Say a piece of `block`, and the block's end where the part says so.

        Raises:
            TypeError: its text is none.
        """
        text = part["text"]
        if not isinstance(text, str):
            raise TypeError("text is a string")
        if text:
            self._turn_to(block, parts.metadata_of(part, TITLE))
            self._output.emit("THINKING_TEXT_MESSAGE_CONTENT", delta=text)
        if parts.is_block_end(part):
            self._output.end((_USE, block))

    def _turn_to(self, block: str, title: object) -> None:
        if (_USE, block) in self._output.open:
            return
        titled = {"title": title} if isinstance(title, str) and title else {}
        opening: tuple[Event, ...] = (
            ("THINKING_START", titled),
            ("THINKING_TEXT_MESSAGE_START", {}),
        )
        self._output.begin_alone((_USE, block), OpenItem(opening, _CLOSING))
