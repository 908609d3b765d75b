"""Output types of agents. A plain string is answer text, like `Text`.

`Artifact`, `RelayedMessage` and `Outcome` are output that an agent relays from another one, in
A2A's terms. Such text without metadata for user interfaces gets the metadata that this fleet's own
agents use; existing metadata stays.
"""

import inspect
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.task import FAILED
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.signals import SIGNALS, Signal


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str
    block: str = ""
    """A label that the agent chooses: pieces with the same label form one block, even with other
    output between them. Without a label, the text continues the last block until something else is
    emitted."""
    end: bool = False
    """Whether this piece ends the block. Its label can't be used again in this run."""
    type: str = "text"
    """Type of the block, ``text`` or ``code``. The first piece sets it."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of the agent's reasoning. `block` and `end` are as for `Text`."""

    text: str
    block: str = ""
    end: bool = False
    title: str = ""
    """Title of the block. The first piece sets it."""
    encrypted: str = ""
    """Opaque data that the model's provider needs back with the block."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete tool call."""

    name: str
    arguments: Any = field(default_factory=dict)
    """Any JSON value, usually an object such as ``{"city": "Oslo"}``."""
    id: str = ""
    """Generated if empty; `RunContext.tool_call` returns it."""
    encrypted: str = ""
    """As `Thinking.encrypted`."""


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """A piece of a tool call whose arguments are streamed."""

    id: str
    delta: str
    """The next piece of the arguments' JSON text, such as ``'{"ci'``."""
    name: str = ""
    """Name of the tool. Required with the first piece."""
    end: bool = False
    """Whether this piece completes the arguments."""
    encrypted: str = ""
    """As `Thinking.encrypted`. Sent with the last piece."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    id: str
    """Id of the call."""
    content: Any = ""
    error: str = ""
    """Why the tool failed. Empty: it succeeded."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as a result, by its content or its URL."""

    name: str = ""
    content: bytes | None = None
    media_type: str = ""
    url: str = ""
    id: str = ""
    """Id of the artifact. A second file with this id replaces the first. Generated if empty."""


@dataclass(frozen=True, slots=True)
class Data:
    """Structured data as a result."""

    data: Any
    name: str = ""
    media_type: str = "application/json"
    id: str = ""
    """As `File.id`."""


@dataclass(frozen=True, slots=True)
class Status:
    """A progress message. It is not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Ends the task as completed, with an optional last text.

    An agent that returns without one completes its task too.
    """

    text: str = ""


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Ends the run and asks the user. The task continues with the user's answer."""

    prompt: str = ""
    schema: Json | None = None
    """JSON Schema of the answer, such as ``{"type": "object", "properties": {…}}``."""
    interrupts: Sequence[Json] = ()
    """AG-UI Interrupts, each with an ``id``. Empty: one is generated."""
    tool_calls: Sequence[str] = ()
    """Ids of calls of the user interface's own tools. Their results are the answer."""
    asks_for: Json = field(default_factory=dict)
    """Task and agent of the child that asks, ``{"task": …, "agent": …}`` (`Result.ask_user`)."""
    refused: str = ""
    """Why the last answer was not used; shown before the prompt."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Ends the task as rejected: the agent declines the request."""

    reason: str


@dataclass(frozen=True, slots=True)
class Message:
    """A bare A2A Message instead of a task.

    It must be the agent's only output, and the agent must be declared with ``bare_message=True``.
    """

    text: str = ""
    parts: Sequence[Json] = ()
    """A2A v1.0 Parts that follow `text`."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A chunk of an A2A artifact."""

    id: str
    parts: Sequence[Json]
    """A2A v1.0 Parts."""
    name: str = ""
    description: str = ""
    metadata: Json = field(default_factory=dict)
    """Metadata of the artifact, not of the event."""
    extensions: Sequence[str] = ()
    append: bool = False
    """Whether the chunk is appended to the artifact with this id instead of replacing it."""
    last_chunk: bool = False


@dataclass(frozen=True, slots=True)
class RelayedMessage:
    """A message of the agent during its work."""

    parts: Sequence[Json]
    """A2A v1.0 Parts."""
    id: str = ""
    """Messages with the same id are pieces of one message. Generated if empty."""
    metadata: Json = field(default_factory=dict)
    """Metadata of the event."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Ends the run in an A2A task state, with a last message if `parts` are given."""

    state: str
    """``TASK_STATE_COMPLETED``, ``…_FAILED``, ``…_CANCELED``, ``…_REJECTED`` or
    ``…_INPUT_REQUIRED``."""
    parts: Sequence[Json] = ()
    """A2A v1.0 Parts."""
    metadata: Json = field(default_factory=dict)
    """Metadata of the event."""
    message_metadata: Json = field(default_factory=dict)
    message_id: str = ""
    """Generated if empty."""

    @classmethod
    def because(cls, reason: str, state: str = FAILED) -> Self:
        """Return an end whose message shows `reason` as an error."""
        return cls(state, [parts.notice_part(reason, parts.ERROR)])


type Output = (
    Text
    | Thinking
    | ToolCall
    | ToolArguments
    | ToolResult
    | File
    | Data
    | Status
    | Artifact
    | RelayedMessage
    | Signal
)
"""Output that does not end the run."""

type Ending = Complete | InputRequired | Reject | Message | Outcome
"""Output that ends the run. Nothing can be emitted after it."""

type Emission = str | Output | Ending
"""Anything that an agent can yield, return or emit."""


OUTPUTS = (
    Text,
    Thinking,
    ToolCall,
    ToolArguments,
    ToolResult,
    File,
    Data,
    Status,
    Artifact,
    RelayedMessage,
)
ENDINGS = (Complete, InputRequired, Reject, Message, Outcome)

FILES = frozenset({File, Artifact})
"""Output types that may contain a file. Large files go to the file store."""

_TEXTS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if field.type is str)
    for kind in (*OUTPUTS, *SIGNALS, *ENDINGS)
}
"""Fields of each output type that must hold strings."""


def check_texts(output: Output | Ending) -> None:
    """Check that string fields hold strings; other types are checked when encoded as JSON.

    Raises:
        MalformedOutput: a field is not a string, or agents may not emit this type.
    """
    if type(output) not in _TEXTS:
        raise MalformedOutput(_not_allowed(output))
    for name in _TEXTS[type(output)]:
        value = getattr(output, name)
        if not isinstance(value, str):
            kind = type(output).__name__
            raise MalformedOutput(f"{kind}.{name} must be a string, not {type(value).__name__}")


def _not_allowed(output: object) -> str:
    kind = type(output).__name__
    if inspect.isawaitable(output):
        return f"an agent can't yield {kind}; an await is missing"
    if output is None:
        return "an agent can't yield None; to end the run without output, return"
    if isinstance(output, dict | list | tuple):
        return f"an agent can't yield {kind}; yield Data(…) for structured output"
    if isinstance(output, AsyncIterator | Iterator):
        loop = "async for" if isinstance(output, AsyncIterator) else "for"
        return f"an agent can't yield {kind}; yield its items: {loop} item in …: yield item"
    usual = "str, Thinking, ToolCall, ToolResult, File, Data, InputRequired, …"
    return f"an agent can't yield {kind}; allowed: {usual}"
