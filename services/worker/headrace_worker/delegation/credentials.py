"""A child that needs credentials: its parent's user is asked, and the answer goes to the child."""

import asyncio
import logging
from contextlib import suppress

from headrace.model.errors import StateUnavailable, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import TellChild
from headrace.model.task import TaskKey
from headrace.sdk.errors import RunOver
from headrace_worker.delegation.parent import Parent

_log = logging.getLogger(__name__)

SETTLE = 0.2
"""Seconds for which a child must have waited: one whose log is read again may be long past it."""

_PAUSE = 0.3


class ChildCredentials:
    """Looks after one child's requests."""

    def __init__(self, parent: Parent, child: TaskKey) -> None:
        """Ask the user of `parent` for `child`."""
        self._parent, self._child = parent, child
        self._asking: asyncio.Task[None] | None = None

    def needed(self, prompt: Json | None, generation: int) -> None:
        """The child waits for credentials since its event `generation`, which says `prompt`."""
        self.settled()
        self._asking = asyncio.create_task(self._ask(prompt, generation))

    def settled(self) -> None:
        """The child waits no more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self, prompt: Json | None, generation: int) -> None:
        await asyncio.sleep(SETTLE)
        with suppress(RunOver):
            async with self._parent.asking:
                said = None if prompt is None else _own(prompt)
                answer = await self._parent.inputs.ask(said)
            await self._hand_in(answer, f"{self._parent.key.task}-{generation}")

    async def _hand_in(self, answer: Json, name: str) -> None:
        """Give the answer, once, to whoever holds the child; another follows one that dies."""
        parent = self._parent.key
        told = TellChild(
            tenant=self._child.tenant,
            agent=self._child.agent,
            task=self._child.task,
            parent=parent.task,
            parent_agent=parent.agent,
            input=name,
            message=answer,
        )
        while True:
            try:
                if await self._parent.state.tell(told) is not None:
                    return
            except (StateUnavailable, TaskUnknown) as trouble:
                _log.info("task %s: %s", self._child.task, trouble)
            await asyncio.sleep(_PAUSE)


def _own(prompt: Json) -> Json:
    """Return the child's prompt without what binds it to the child's task."""
    return {key: value for key, value in prompt.items() if key not in {"taskId", "contextId"}}
