"""What an agent can say. A plain string is answer text, as `Text` is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.model.events import Json
from headrace.sdk.relayed import Artifact, Outcome, Said
from headrace.sdk.signals import Signal


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of the answer."""

    text: str
    block: str = ""
    """A label of the agent's choice: pieces with one label are one block, whatever is said between
    them. Without one, the text goes on with the last block until something else is said."""
    end: bool = False
    """Whether the block ends with this piece; a label then can't be used again in this run."""
    type: str = "text"
    """Type of the block, ``text`` or ``code``; its first piece decides."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of the agent's reasoning; `block` and `end` are as `Text`'s."""

    text: str
    block: str = ""
    end: bool = False
    title: str = ""
    """What the block is about; its first piece decides."""
    encrypted: str = ""
    """What the model's provider wants back with the block, opaque to everybody else."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A whole tool call."""

    name: str
    arguments: Any = field(default_factory=dict)
    """JSON."""
    id: str = ""
    """Minted where empty; `RunContext.tool_call` returns it."""
    encrypted: str = ""
    """As `Thinking.encrypted`."""


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """A piece of a tool call whose arguments arrive little by little."""

    id: str
    delta: str
    """The next piece of the arguments' JSON text."""
    name: str = ""
    """Name of the tool; the first piece needs it."""
    end: bool = False
    """Whether the arguments are complete with this piece."""
    encrypted: str = ""
    """As `Thinking.encrypted`; said with the last piece."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered."""

    id: str
    """The call's."""
    content: Any = ""
    error: str = ""
    """Why the tool failed; empty where it did not."""


@dataclass(frozen=True, slots=True)
class File:
    """A file as a result: its content or its address."""

    name: str = ""
    content: bytes | None = None
    media_type: str = ""
    url: str = ""
    id: str = ""
    """The artifact's id; a second file of that id replaces the first. Minted where empty."""


@dataclass(frozen=True, slots=True)
class Data:
    """Structured data as a result."""

    data: Any
    """JSON."""
    name: str = ""
    media_type: str = "application/json"
    id: str = ""
    """As `File.id`."""


@dataclass(frozen=True, slots=True)
class Status:
    """A word on how the work goes, no part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Ends the task with a last word. An agent that just returns completes without one."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class InputRequired:
    """Ends the run: the task goes on when its user has answered."""

    prompt: str = ""
    schema: Json | None = None
    """JSON Schema of the answer."""
    interrupts: Sequence[Json] = ()
    """What exactly is asked: AG-UI Interrupts, each with an ``id``. One is made where none is."""
    tool_calls: Sequence[str] = ()
    """Ids of calls of the user interface's own tools, whose results are what is asked for."""
    asks_for: Json = field(default_factory=dict)
    """Task and agent of the child whose question it is (`Result.ask_user`)."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Ends the task: the agent will not do this."""

    reason: str


@dataclass(frozen=True, slots=True)
class Message:
    """A bare answer instead of a task: the one thing its agent says (see `Agent.bare_message`)."""

    text: str = ""
    parts: Sequence[Json] = ()
    """A2A Parts, behind `text`."""


type Utterance = (
    Text
    | Thinking
    | ToolCall
    | ToolArguments
    | ToolResult
    | File
    | Data
    | Status
    | Artifact
    | Said
    | Signal
)
"""What goes on with the run."""

type Ending = Complete | InputRequired | Reject | Message | Outcome
"""What ends it; nothing can be said after."""

type Emission = str | Utterance | Ending
"""Anything that an agent can yield, return or emit."""


UTTERANCES = (
    Text,
    Thinking,
    ToolCall,
    ToolArguments,
    ToolResult,
    File,
    Data,
    Status,
    Artifact,
    Said,
)
ENDINGS = (Complete, InputRequired, Reject, Message, Outcome)

FILES = frozenset({File, Artifact})
"""What may hold a file, which goes to the store if it is large."""
