"""What an agent says for user interfaces alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.events import Json


@dataclass(frozen=True, slots=True)
class State:
    """The whole state that the agent shares with its user interface."""

    state: Any
    """JSON."""


@dataclass(frozen=True, slots=True)
class StateDelta:
    """A change of the shared state."""

    patch: Sequence[Json]
    """JSON Patch (RFC 6902). One that does not fit is dropped, and the whole state told instead."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The whole conversation: what the user interface holds becomes this."""

    messages: Sequence[Json]
    """AG-UI Messages, each with an ``id`` of its own. Activities that are left out stay."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Structured content that a user interface shows by its type."""

    type: str
    content: Json
    id: str = ""
    """A second activity of that id replaces the first. Minted where empty."""


@dataclass(frozen=True, slots=True)
class ActivityDelta:
    """A change of an activity's content."""

    id: str
    """The activity's."""
    patch: Sequence[Json]
    """JSON Patch."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the work begins, or ends."""

    name: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Subagent:
    """Another agent of the same process goes on with the task.

    What is said until it ends stays the task's own: only the user interface is told who says it.
    """

    name: str
    id: str
    """Unlike that of any other in the task's log."""
    finished: bool = False
    """Whether it has done its part, instead of beginning it."""
    suspended: bool = False
    """Whether it has ended because it waits for the user."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model has used; reports of one provider and model add up."""

    model: str = ""
    provider: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    """0: it is not said."""
    reasoning_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Custom:
    """An event of the agent's own making, for user interfaces that know its name."""

    name: str
    value: Any = None
    """JSON."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An event of another system as it came."""

    event: Any
    """JSON."""
    source: str = ""


type Signal = (
    State
    | StateDelta
    | Messages
    | Activity
    | ActivityDelta
    | Step
    | Subagent
    | Usage
    | Custom
    | Raw
)
"""Heard beside what is said: it ends no block, and interrupts none."""

SIGNALS = (
    State,
    StateDelta,
    Messages,
    Activity,
    ActivityDelta,
    Step,
    Subagent,
    Usage,
    Custom,
    Raw,
)
