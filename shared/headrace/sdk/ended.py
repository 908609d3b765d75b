"""A task that has ended while no attempt was at work on it, as its agent's clean-up sees it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from headrace.model.events import Json
from headrace.model.task import TaskKey


@dataclass(frozen=True, slots=True)
class EndedTask:
    """What is known of it."""

    key: TaskKey
    context: str
    """The conversation: A2A's contextId."""
    owner: str
    """Whose task it is, as a subject token."""
    task: Json
    """The task as its log has it, its end included: an A2A v1.0 Task."""

    told: list[tuple[int, Json]]
    """Its log: each StreamResponse with its generation."""

    @property
    def state(self) -> str:
        """How it ended: ``TASK_STATE_CANCELED``, ``TASK_STATE_FAILED`` or ``…_REJECTED``."""
        return str(self.task["status"]["state"])


type CleanUp = Callable[[EndedTask], Coroutine[Any, Any, None]]
"""Ends what the agent has begun elsewhere for the task."""
