"""Output that an agent relays from another agent, in A2A's terms.

Text without metadata for user interfaces gets the metadata that this fleet's own agents use.
Existing metadata stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.task import FAILED


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
