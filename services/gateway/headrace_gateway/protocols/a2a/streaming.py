"""What a streaming operation answers with, before a binding words it."""

from dataclasses import dataclass

from a2a.utils.errors import UnsupportedOperationError

from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace_gateway.call import Call
from headrace_gateway.feeds import Feed


@dataclass(frozen=True, slots=True)
class First:
    """A StreamResponse that leads a stream though it is no event of the log: a Task as of now."""

    generation: int
    """Generation of the last event that it reflects: its cursor."""
    event: Json


@dataclass(frozen=True, slots=True)
class Streaming:
    """A stream that is about to begin. Its feed is open: who does not stream it releases it."""

    feed: Feed
    after: int
    """Generation behind which the log's events follow."""
    log: str
    first: First | None = None
    task_shown: bool = False
    """Whether the client sees a task, so that a bare Message may no more come as such."""
    recovered: bool = True
    """False: the client's past is lost, and `first` stands for it."""

    @property
    def key(self) -> TaskKey:
        """Whose log it is."""
        return self.feed.key


def check_streaming(call: Call) -> None:
    """Return if the agent's card offers streams.

    Raises:
        UnsupportedOperationError: it does not.
    """
    if not call.card.streaming:
        raise UnsupportedOperationError(f"agent {call.agent} offers no streams")
