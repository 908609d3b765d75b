"""What an agent that is steered reads: the messages that come while it is at work."""

from typing import Self

from headrace.model.events import Json
from headrace_worker.inputs import Inputs


class Inbox:
    """``async for message in ctx.inbox``: each an A2A v1.0 Message, as it comes, without end.

    A message that is read stands in the task's history from then on; one that is not becomes the
    next leg's input.
    """

    def __init__(self, inputs: Inputs) -> None:
        """Read from `inputs`."""
        self._inputs = inputs

    def __bool__(self) -> bool:
        """Whether a message is there."""
        return self._inputs.has_steering

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Json:
        """Return the next message, waiting for it."""
        return await self._inputs.next_steering()
