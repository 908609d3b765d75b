"""The event queue that an `AgentExecutor` writes to: its events go into the task's log."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import override

from headrace.model import parts
from headrace.model.events import Json
from headrace.model.task import AUTH_REQUIRED, COMPLETED, RUN_ENDED
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Emission, Message
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Outcome
from headrace_worker.adapters.a2a_json import artifact_of, json_of, outcome_of, said_of
from headrace_worker.adapters.extras import needs
from headrace_worker.encoder import hinted

with needs("a2a"):
    from a2a.server.events import Event, EventQueue
    from a2a.types import Message as A2AMessage
    from a2a.types import Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent


class Unheard(EventQueue):
    """For an executor whose task is over: nobody hears what it still says."""

    @override
    async def enqueue_event(self, event: Event) -> None:
        """Drop it."""


class LogQueue(EventQueue):
    """Takes events as the SDK's queues do, and waits where the agent is too far ahead."""

    def __init__(self, ctx: RunContext, artifacts: list[Json], *, may_answer: bool) -> None:
        """Write to the log of `ctx`, whose task has `artifacts` so far.

        `may_answer`: a Message that comes first is the answer, instead of a task.
        """
        self._ctx, self._before, self._may_answer = ctx, artifacts, may_answer
        self._artifacts = {artifact["artifactId"] for artifact in artifacts}
        self._over = self._spoke = False
        self._asking: asyncio.Task[Json] | None = None

    @override
    async def enqueue_event(self, event: Event) -> None:
        """Append `event`; what follows the run's end is dropped, as the SDK's servers do.

        Raises:
            MalformedOutput: it is another task's, or not what A2A says.
            RunOver: the run has ended without the executor.
        """
        if self._over:
            self._ctx.log.warning("the executor said more after its end: dropped")
            return
        match event:
            case A2AMessage():
                await self._answer(json_of(event))
            case Task():
                await self._task(json_of(event))
            case TaskArtifactUpdateEvent():
                await self._artifact(json_of(event))
            case TaskStatusUpdateEvent():
                update = json_of(event)
                self._check(update.get("taskId", ""))
                await self._status(update.get("status", {}), update.get("metadata", {}))

    async def answer(self, timeout: float) -> Json | None:
        """Return the user's answer if the executor asked for credentials, else None.

        Raises:
            TimeoutError: none came within `timeout` seconds.
        """
        asking = self._asking
        if asking is None or self._over:
            await self.close()
            return None
        try:
            async with asyncio.timeout(timeout):
                return await asking
        finally:
            await self.close()

    async def close(self) -> None:
        """Ask for nothing any more."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking

    async def _answer(self, message: Json) -> None:
        content = message.get("parts", [])
        if self._may_answer and not self._spoke:
            await self._end(Message(parts=content))
        else:
            await self._end(Outcome(COMPLETED, content, message.get("metadata", {})))

    async def _task(self, task: Json) -> None:
        self._check(task.get("id", ""))
        for artifact in task.get("artifacts", []):
            if artifact in self._before:
                # Executors put the task that they were given into the queue again.
                continue
            await self._artifact({"artifact": artifact, "lastChunk": True})
        await self._status(task.get("status", {}), task.get("metadata", {}))

    async def _artifact(self, update: Json) -> None:
        self._check(update.get("taskId", ""))
        chunk = artifact_of(update)
        if chunk.append and chunk.id not in self._artifacts:
            # What was never begun can't go on: clients would refuse it.
            chunk = replace(chunk, append=False)
        self._artifacts.add(chunk.id)
        await self._say(chunk)

    async def _status(self, status: Json, metadata: Json) -> None:
        state = status.get("state")
        if state in RUN_ENDED:
            await self._end(outcome_of(status, metadata))
        elif state == AUTH_REQUIRED:
            await self._ask(status.get("message", {}))
        elif (said := said_of(status, metadata)) is not None:
            await self._say(said)
        else:
            await self.close()

    async def _ask(self, message: Json) -> None:
        await self.close()
        content = [hinted(part, parts.TASK) for part in message.get("parts", [])]
        name = message.get("messageId") or self._ctx.new_id("message")
        prompt = {**message, "messageId": name, "role": "ROLE_AGENT", "parts": content}
        self._spoke = True
        self._asking = asyncio.create_task(runtime_of(self._ctx).ask(prompt))
        # Begun at once, so that it stands in the log before whatever comes next.
        await asyncio.sleep(0)

    async def _say(self, said: Emission) -> None:
        if self._asking is not None and not self._asking.done():
            # It goes on: somebody else has brought what it asked for.
            await self.close()
        self._spoke = True
        await self._ctx.emit(said)

    async def _end(self, said: Emission) -> None:
        self._over = True
        await self.close()
        await self._ctx.emit(said)

    def _check(self, task: str) -> None:
        if task and task != self._ctx.task:
            raise MalformedOutput(f"an event of task {task!r}, which this run is not about")
