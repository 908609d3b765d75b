"""The messages that a client holds of a run, as they grow."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from headrace.model.events import Json


@dataclass(slots=True)
class Given:
    """A message that the client had before the run."""

    message: Json
    subagent: ClassVar[str] = ""

    def calls_tool(self, call: str) -> bool:
        """Tell whether the message made the tool call of that id."""
        return any(made["id"] == call for made in self.message.get("toolCalls") or [])

    def shown(self) -> Json:
        """Return it as it came."""
        return self.message

    def copy(self) -> Self:
        """Return itself: it never changes."""
        return self


@dataclass(slots=True)
class Call:
    """A tool call inside the message that made it."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    """Pieces of one JSON text."""
    encrypted: str | None = None

    def shown(self) -> Json:
        """Return AG-UI's ToolCall."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return _sealed({"id": self.id, "type": "function", "function": function}, self.encrypted)

    def copy(self) -> Self:
        """Return one that grows apart from this."""
        return replace(self, arguments=_joined(self.arguments))


@dataclass(slots=True)
class Answered:
    """A tool's result."""

    id: str
    call: str
    content: str
    metadata: Json
    subagent: str = ""
    """The subagent run that said it; empty: the agent itself. So with the others."""

    def shown(self) -> Json:
        """Return AG-UI's ToolMessage."""
        shown = {"id": self.id, "role": "tool", "toolCallId": self.call, "content": self.content}
        return _by(shown | self.metadata, self.subagent)

    def copy(self) -> Self:
        """Return itself: a result never grows."""
        return self


@dataclass(slots=True)
class Spoken:
    """A text or reasoning message, with the tool calls that it made."""

    id: str
    role: str
    chunks: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    encrypted: str | None = None
    subagent: str = ""

    def call(self, call: str) -> Call | None:
        """Return the tool call of that id, if this message made it."""
        return next((made for made in self.calls if made.id == call), None)

    def calls_tool(self, call: str) -> bool:
        """Tell whether this message made the tool call of that id."""
        return self.call(call) is not None

    def shown(self) -> Json:
        """Return AG-UI's AssistantMessage or ReasoningMessage."""
        shown: Json = {"id": self.id, "role": self.role, "content": "".join(self.chunks)}
        if self.calls:
            shown["toolCalls"] = [call.shown() for call in self.calls]
        return _by(_sealed(shown, self.encrypted), self.subagent)

    def copy(self) -> Self:
        """Return one that grows apart from this."""
        calls = [call.copy() for call in self.calls]
        return replace(self, chunks=_joined(self.chunks), calls=calls)


@dataclass(slots=True)
class Activity:
    """Structured content that is no chat message."""

    id: str
    type: str
    content: Any
    """A JSON object, never changed in place."""
    subagent: str = ""

    def shown(self) -> Json:
        """Return AG-UI's ActivityMessage."""
        shown = {"id": self.id, "role": "activity", "activityType": self.type}
        return _by({**shown, "content": self.content}, self.subagent)

    def copy(self) -> Self:
        """Return one that changes apart from this."""
        return replace(self)


type Held = Given | Spoken | Answered | Activity


def _sealed(shown: Json, encrypted: str | None) -> Json:
    return shown if encrypted is None else {**shown, "encryptedValue": encrypted}


def _by(shown: Json, subagent: str) -> Json:
    return {**shown, "subagentRunId": subagent} if subagent else shown


def _joined(pieces: list[str]) -> list[str]:
    """Return a copy in one piece, and join the original: the next copy is cheap."""
    pieces[:] = ["".join(pieces)]
    return pieces.copy()
