"""Blocks of text and of thinking: each block is one message, and blocks may interleave."""

from typing import NamedTuple

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.parts import TITLE
from headrace_gateway.protocols.agui.output import Event, OpenItem, Output
from headrace_gateway.protocols.agui.view import AgentMessage, View


class BlockEvents(NamedTuple):
    """The AG-UI events of one kind of block."""

    use: str
    """Use under which message ids are claimed (see `View.claim`)."""
    role: str
    start: str
    content: str
    end: str
    span: tuple[str, str] | None = None
    """Events around the message, if the kind has them."""

    def opening(self, message: str, title: str) -> tuple[Event, ...]:
        """Return the events that open the message."""
        start = (self.start, {"messageId": message, "role": self.role})
        if self.span is None:
            return (start,)
        titled = {"metadata": {"title": title}} if title else {}
        return (self.span[0], {"messageId": message, **titled}), start

    def closing(self, message: str) -> tuple[Event, ...]:
        """Return the events that close the message."""
        end = (self.end, {"messageId": message})
        return (end,) if self.span is None else (end, (self.span[1], {"messageId": message}))


TEXT = BlockEvents(
    "text", "assistant", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"
)
REASONING = BlockEvents(
    "reasoning",
    "reasoning",
    "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END",
    ("REASONING_START", "REASONING_END"),
)


class BlockMessages:
    """Converts the pieces of one kind of block to events."""

    def __init__(self, kind: BlockEvents, output: Output, view: View) -> None:
        """Emit the events of `kind`."""
        self._kind, self._output, self._view = kind, output, view

    def piece(self, part: Json, block: str) -> None:
        """Emit a text part of `block`, and the block's end if the part marks it."""
        text, value = part["text"], parts.encrypted_value(part)
        if text or value:
            # An empty piece may end a block but does not start one.
            self.emit(block, text, _title(part))
        if value:
            self._seal(block, value)
        if parts.is_block_end(part):
            self.end(block)

    def emit(self, block: str, text: str, title: str = "") -> None:
        """Append `text` to the block's message, which starts with its first piece.

        Raises:
            TypeError: `text` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError("text must be a string")
        item = self._output.open.get((self._kind.use, block)) or self.begin(block, title)
        if text:
            item.pieces.append(text)
            self._output.emit(self._kind.content, messageId=item.id, delta=text)

    def begin(self, block: str, title: str = "") -> OpenItem:
        """Start the block's message, or continue one that has ended."""
        return self._begin(block, self._output.unique(block), title)

    def add_empty(self, message: str) -> str:
        """Emit a message without content, and return its id: `message`, unless another has it."""
        item = self._begin(message, message)
        self._output.end((self._kind.use, message))
        return item.id

    def _begin(self, block: str, wanted: str, title: str = "") -> OpenItem:
        kind, view = self._kind, self._view
        message = view.claim(self._output.use(kind.use), wanted)
        held = view.messages.get(message)
        if not isinstance(held, AgentMessage):
            held = view.messages[message] = AgentMessage(message, kind.role)
            held.subagent = self._output.subagent
        opening, closing = kind.opening(message, title), kind.closing(message)
        item = OpenItem(opening, closing, message, held.chunks)
        return self._output.begin((kind.use, block), item)

    def end(self, block: str) -> None:
        """End the block's message if it is open."""
        self._output.end((self._kind.use, block))

    def retract(self, block: str) -> bool:
        """Retract the block's output; return whether there was any."""
        message = self._message(block)
        held = self._view.messages.get(message)
        if not isinstance(held, AgentMessage) or not any(held.chunks):
            return False
        self.end(block)
        held.chunks.clear()
        if not held.calls:
            del self._view.messages[message]
        return True

    def _message(self, block: str) -> str:
        return self._view.find(self._output.use(self._kind.use), self._output.unique(block))

    def _seal(self, block: str, value: str) -> None:
        message = self._message(block)
        self._view.message(message).encrypted = value
        self._output.emit(
            "REASONING_ENCRYPTED_VALUE", subtype="message", entityId=message, encryptedValue=value
        )


def _title(part: Json) -> str:
    title = parts.metadata_of(part, TITLE)
    return title if isinstance(title, str) else ""
