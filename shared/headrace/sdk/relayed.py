"""What an agent passes on of what another one said, in A2A's own words.

Text that says nothing of itself to user interfaces is given the metadata that this fleet's own
agents give to theirs; metadata that is there stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.model.events import Json


@dataclass(frozen=True, slots=True)
class Artifact:
    """A chunk of an A2A artifact."""

    id: str
    parts: Sequence[Json]
    """A2A v1.0 Parts."""
    name: str = ""
    description: str = ""
    metadata: Json = field(default_factory=dict)
    """The artifact's, not the event's."""
    extensions: Sequence[str] = ()
    append: bool = False
    """Whether the chunk goes on with the artifact of that id instead of replacing it."""
    last_chunk: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the agent while it works."""

    parts: Sequence[Json]
    """A2A v1.0 Parts."""
    id: str = ""
    """Messages of one id are pieces of one. Minted where empty."""
    metadata: Json = field(default_factory=dict)
    """The event's."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Ends the run in a state of A2A's, with a last message if it has parts."""

    state: str
    """``TASK_STATE_COMPLETED``, ``…_FAILED``, ``…_CANCELED``, ``…_REJECTED`` or
    ``…_INPUT_REQUIRED``."""
    parts: Sequence[Json] = ()
    """A2A v1.0 Parts."""
    metadata: Json = field(default_factory=dict)
    """The event's."""
    message_metadata: Json = field(default_factory=dict)
    message_id: str = ""
    """Minted where empty."""
