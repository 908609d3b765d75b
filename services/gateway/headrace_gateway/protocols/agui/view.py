"""The state of a client that has read the stream so far: messages, state and usage.

A fold needs it to retract output, because a client can only be sent what remains.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from headrace.model.events import Json
from headrace.model.json_patch import CopyBudget, Document


@dataclass(slots=True)
class ClientMessage:
    """A message that the client had before the run, or that the agent has set."""

    message: Json
    is_sent: bool = False
    """Whether the client has sent it with the run."""
    subagent: ClassVar[str] = ""

    @property
    def calls(self) -> list[str]:
        """Ids of the tool calls that the message made."""
        return [made["id"] for made in self.message.get("toolCalls") or []]

    def calls_tool(self, call: str) -> bool:
        """Return whether the message made the tool call with that id."""
        return call in self.calls

    def shown(self) -> Json:
        """Return the message unchanged."""
        return self.message

    def copy(self) -> Self:
        """Return the message itself, which never changes."""
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
        """Return the AG-UI ToolCall."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return _sealed({"id": self.id, "type": "function", "function": function}, self.encrypted)

    def copy(self) -> Self:
        """Return an independent copy."""
        return replace(self, arguments=_joined(self.arguments))


@dataclass(slots=True)
class ToolMessage:
    """The result of a tool."""

    id: str
    call: str
    content: str
    metadata: Json
    subagent: str = ""
    """The subagent run that emitted it; empty for the agent itself, as in the classes below."""

    def shown(self) -> Json:
        """Return the AG-UI ToolMessage."""
        shown = {"id": self.id, "role": "tool", "toolCallId": self.call, "content": self.content}
        return _by(shown | self.metadata, self.subagent)

    def copy(self) -> Self:
        """Return the result itself, which never changes."""
        return self


@dataclass(slots=True)
class AgentMessage:
    """A text or reasoning message, with the tool calls that it made."""

    id: str
    role: str
    chunks: list[str] = field(default_factory=list)
    calls: list[ToolCallSoFar] = field(default_factory=list)
    encrypted: str | None = None
    subagent: str = ""

    def call(self, call: str) -> ToolCallSoFar | None:
        """Return the tool call with that id, if this message made it."""
        return next((made for made in self.calls if made.id == call), None)

    def calls_tool(self, call: str) -> bool:
        """Return whether this message made the tool call with that id."""
        return self.call(call) is not None

    def shown(self) -> Json:
        """Return the AG-UI AssistantMessage or ReasoningMessage."""
        shown: Json = {"id": self.id, "role": self.role, "content": "".join(self.chunks)}
        if self.calls:
            shown["toolCalls"] = [call.shown() for call in self.calls]
        return _by(_sealed(shown, self.encrypted), self.subagent)

    def copy(self) -> Self:
        """Return an independent copy."""
        calls = [call.copy() for call in self.calls]
        return replace(self, chunks=_joined(self.chunks), calls=calls)


@dataclass(slots=True)
class HeldActivity:
    """Structured content that is not a chat message."""

    id: str
    type: str
    content: Document
    """A JSON object."""
    subagent: str = ""
    is_change: bool = False
    """Whether it is only what the run adds to a surface that an earlier run has made."""

    def shown(self) -> Json:
        """Return the AG-UI ActivityMessage."""
        shown = {"id": self.id, "role": "activity", "activityType": self.type}
        return _by({**shown, "content": self.content.value}, self.subagent)

    def copy(self) -> Self:
        """Return an independent copy."""
        return replace(self)


type Held = ClientMessage | AgentMessage | ToolMessage | HeldActivity


def _sealed(shown: Json, encrypted: str | None) -> Json:
    return shown if encrypted is None else {**shown, "encryptedValue": encrypted}


def _by(shown: Json, subagent: str) -> Json:
    return {**shown, "subagentRunId": subagent} if subagent else shown


def _joined(pieces: list[str]) -> list[str]:
    """Join the pieces in place and return a copy, so that the next copy is cheap."""
    pieces[:] = ["".join(pieces)]
    return pieces.copy()


@dataclass(slots=True)
class View:
    """Messages and state as of the last frame."""

    state: Document
    messages: dict[str, Held] = field(default_factory=dict)
    """By id, in the client's order."""
    usage: list[Json] = field(default_factory=list)
    """AG-UI TokenUsage, one per provider and model."""
    ids: dict[str, str] = field(default_factory=dict)
    """Every message id ever used, with its use."""
    activity_copies: CopyBudget = field(default_factory=CopyBudget)
    """What patches may copy in all activities: each may become as large as the state."""

    @classmethod
    def at_start(cls, messages: list[Json], state: Any) -> Self:  # noqa: ANN401 - any JSON value
        """Return the view of a client that starts a run with `messages` and `state`."""
        given: dict[str, Held] = {
            message["id"]: ClientMessage(message, is_sent=True) for message in messages
        }
        return cls(Document(state), given, ids=dict.fromkeys(given, "given"))

    def find(self, use: str, wanted: str) -> str:
        """Return the message id for `wanted` in `use`: `wanted` itself, unless another use has it.

        Clients find messages by id alone, so ids must be unique across uses.
        """
        while self.ids.get(wanted, use) != use:
            wanted = f"{wanted}-{use}"
        return wanted

    def claim(self, use: str, wanted: str) -> str:
        """Reserve the id that `find` returns."""
        message = self.find(use, wanted)
        self.ids[message] = use
        return message

    def message(self, message: str) -> AgentMessage:
        """Return the text or reasoning message with that id.

        Raises:
            KeyError: it does not exist.
        """
        held = self.messages.get(message)
        if not isinstance(held, AgentMessage):
            raise KeyError(message)
        return held

    def caller_of(self, call: str) -> ClientMessage | AgentMessage | None:
        """Return the message that made the tool call `call`; of several, the first in order."""
        for held in self.messages.values():
            if isinstance(held, ClientMessage | AgentMessage) and held.calls_tool(call):
                return held
        return None

    def add_result(self, answered: ToolMessage) -> None:
        """Insert a result where clients do: after its call and the results that follow it."""
        caller = self.caller_of(answered.call)
        held = list(self.messages.values())
        at = held.index(caller) + 1 if caller is not None else len(held)
        while at < len(held) and held[at].shown()["role"] == "tool":
            at += 1
        items = list(self.messages.items())
        self.messages = dict([*items[:at], (answered.id, answered), *items[at:]])

    def shown(self) -> list[Json]:
        """Return all messages in AG-UI's format."""
        return [held.shown() for held in self.messages.values()]

    def saved(self) -> Self:
        """Return an independent copy."""
        messages = {key: held.copy() for key, held in self.messages.items()}
        return replace(self, messages=messages, usage=[*self.usage], ids={**self.ids})

    def restore(self, saved: Self) -> None:
        """Restore `saved`, except that used ids stay reserved.

        Restored messages get their own uses back: a snapshot of the agent may have reassigned their
        ids.
        """
        again = saved.saved()
        self.state, self.messages, self.usage = again.state, again.messages, again.usage
        self.ids |= {message: again.ids[message] for message in again.messages}
