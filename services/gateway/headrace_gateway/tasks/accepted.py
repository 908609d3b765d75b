"""An input that is in the log."""

import secrets
from dataclasses import dataclass

from headrace.model.messages import TaskFound
from headrace.model.task import TaskKey
from headrace_gateway.feeds import Feed


@dataclass(slots=True)
class Accepted:
    """An input that is in the log."""

    key: TaskKey
    context: str
    log: str
    generation: int
    """The input's generation: the run's name."""
    feed: Feed
    """Open: whoever holds this must release it (`Feeds.release`)."""
    snapshot: TaskFound | None = None
    """For a follow-up: the Task just before the input."""
    again: bool = False
    """Whether the input had been accepted before: this is what came of it."""


def new_writer() -> str:
    """Return a writer id for one entry."""
    return f"gateway-{secrets.token_hex(6)}"
