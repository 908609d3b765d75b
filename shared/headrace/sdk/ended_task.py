"""A task that ended while no attempt was running, as passed to its agent's clean-up."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from headrace.model.events import Json
from headrace.model.task import TaskKey


@dataclass(frozen=True, slots=True)
class EndedTask:
    """The ended task."""

    key: TaskKey
    context: str
    """Id of the conversation: A2A's contextId."""
    owner: str
    """Owner of the task, as a subject token."""
    task: Json
    """The task with its final status, from its log: an A2A v1.0 Task."""

    events: list[tuple[int, Json]]
    """The log's StreamResponses with their generations: ``[(1, {"task": …}), …]``."""

    @property
    def state(self) -> str:
        """``TASK_STATE_CANCELED``, ``TASK_STATE_FAILED`` or ``TASK_STATE_REJECTED``."""
        return str(self.task["status"]["state"])


type CleanUp = Callable[[EndedTask], Coroutine[Any, Any, None]]
"""Ends the work that the agent started elsewhere for the task."""
