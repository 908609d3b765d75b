"""Requests of a child task for credentials, which the parent's user answers."""

import asyncio
import logging
from contextlib import suppress

from headrace.model.errors import StateUnavailable, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import ChildInput
from headrace.model.task import TaskKey
from headrace.sdk.errors import RunOver
from headrace.state_client import StateClient
from headrace_worker.delegation.parent import Parent

_log = logging.getLogger(__name__)

_SETTLE = 0.2
"""Seconds that a child must wait before its user is asked: in a replayed log, the wait may be
over."""

_PAUSE = 0.3


class ChildCredentials:
    """Forwarding of one child's credential requests to the user."""

    def __init__(self, parent: Parent, child: TaskKey, asking: asyncio.Lock) -> None:
        """Ask the user of `parent` on behalf of `child`, with `asking` held."""
        self._parent, self._child, self._user = parent, child, asking
        self._asking: asyncio.Task[None] | None = None

    def needed(self, prompt: Json | None, generation: int) -> None:
        """Ask the user: since event `generation` with `prompt`, the child waits for credentials."""
        self.settled()
        self._asking = asyncio.create_task(self._ask(prompt, generation))

    def settled(self) -> None:
        """Stop asking: the child no longer waits."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self, prompt: Json | None, generation: int) -> None:
        await asyncio.sleep(_SETTLE)
        with suppress(RunOver):
            async with self._user:
                message = None if prompt is None else _without_ids(prompt)
                answer = await self._parent.inputs.ask(message)
            await self._send_answer(answer, generation)

    async def _send_answer(self, answer: Json, asked_at: int) -> None:
        """Send the answer to the child's holder, with retries; its input id prevents duplicates."""
        parent = self._parent.ctx.key
        request = ChildInput(
            tenant=self._child.tenant,
            agent=self._child.agent,
            task=self._child.task,
            parent=parent.task,
            parent_agent=parent.agent,
            input=f"{parent.task}-{asked_at}",
            message=answer,
            asked_at=asked_at,
        )
        while True:
            try:
                if await StateClient(self._parent.resources.bus).send_input(request) is not None:
                    return
            except (StateUnavailable, TaskUnknown) as error:
                _log.info("task %s: %s", self._child.task, error)
            await asyncio.sleep(_PAUSE)


def _without_ids(prompt: Json) -> Json:
    """Return the child's prompt without the ids of the child's task."""
    return {key: value for key, value in prompt.items() if key not in {"taskId", "contextId"}}
