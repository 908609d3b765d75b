"""What a client that read the stream so far holds: its messages, its state, what was used.

A fold needs it to take output back: a client can be told only what remains.
"""

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
class ToolCallSoFar:
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
    calls: list[ToolCallSoFar] = field(default_factory=list)
    encrypted: str | None = None
    subagent: str = ""

    def call(self, call: str) -> ToolCallSoFar | None:
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
class HeldActivity:
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


type Held = Given | Spoken | Answered | HeldActivity


def _sealed(shown: Json, encrypted: str | None) -> Json:
    return shown if encrypted is None else {**shown, "encryptedValue": encrypted}


def _by(shown: Json, subagent: str) -> Json:
    return {**shown, "subagentRunId": subagent} if subagent else shown


def _joined(pieces: list[str]) -> list[str]:
    """Return a copy in one piece, and join the original: the next copy is cheap."""
    pieces[:] = ["".join(pieces)]
    return pieces.copy()


@dataclass(slots=True)
class View:
    """Messages and state as of the last frame."""

    state: Any
    """Any JSON value, never changed in place."""
    messages: dict[str, Held] = field(default_factory=dict)
    """By id, in the client's order."""
    usage: list[Json] = field(default_factory=list)
    """AG-UI TokenUsage, one per provider and model."""
    ids: dict[str, str] = field(default_factory=dict)
    """Every message id ever used, and for what."""

    @classmethod
    def at_start(cls, messages: list[Json], state: Any) -> Self:  # noqa: ANN401 - any JSON value
        """Return the view of a client that starts a run with `messages` and `state`."""
        given: dict[str, Held] = {message["id"]: Given(message) for message in messages}
        return cls(state, given, ids=dict.fromkeys(given, "given"))

    def find(self, use: str, wanted: str) -> str:
        """Return the message id for what `use` calls `wanted`: just that, unless it is taken.

        A client finds messages by their ids alone, so an id may name one thing only.
        """
        while self.ids.get(wanted, use) != use:
            wanted = f"{wanted}-{use}"
        return wanted

    def claim(self, use: str, wanted: str) -> str:
        """Take the id that `find` returns, for good."""
        message = self.find(use, wanted)
        self.ids[message] = use
        return message

    def spoken(self, message: str) -> Spoken:
        """Return the text or reasoning message of that id.

        Raises:
            KeyError: there is none.
        """
        held = self.messages.get(message)
        if not isinstance(held, Spoken):
            raise KeyError(message)
        return held

    def caller_of(self, call: str) -> Given | Spoken | None:
        """Return the message that made the tool call `call`: of several, the client's first."""
        for held in self.messages.values():
            if isinstance(held, Given | Spoken) and held.calls_tool(call):
                return held
        return None

    def answer(self, answered: Answered) -> None:
        """Put a result where clients put it: behind its call and what stands there already."""
        caller = self.caller_of(answered.call)
        held = list(self.messages.values())
        at = held.index(caller) + 1 if caller is not None else len(held)
        while at < len(held) and held[at].shown()["role"] == "tool":
            at += 1
        items = list(self.messages.items())
        self.messages = dict([*items[:at], (answered.id, answered), *items[at:]])

    def shown(self) -> list[Json]:
        """Return all messages as AG-UI has them."""
        return [held.shown() for held in self.messages.values()]

    def saved(self) -> Self:
        """Return a copy that stays as it is."""
        messages = {key: held.copy() for key, held in self.messages.items()}
        return replace(self, messages=messages, usage=[*self.usage], ids={**self.ids})

    def restore(self, saved: Self) -> None:
        """Be as `saved` again, except that ids stay used.

        What is there again goes by its own use: the agent's snapshot of the conversation may have
        given its id to something else since.
        """
        again = saved.saved()
        self.state, self.messages, self.usage = again.state, again.messages, again.usage
        self.ids |= {message: again.ids[message] for message in again.messages}
