"""An `AgentExecutor` of the official A2A SDK, unchanged, as an agent."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack, override

from headrace.model import parts
from headrace.model.errors import HeadraceError
from headrace.model.events import AGUI, Json
from headrace.model.task import AUTH_REQUIRED, COMPLETED, RUN_ENDED
from headrace.sdk.agent import Agent, agent
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Emission, Message
from headrace.sdk.ended import EndedTask
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.relayed import Outcome
from headrace_worker.adapters.a2a_json import artifact_of, json_of, outcome_of, parsed, said_of
from headrace_worker.adapters.cards import name_of, taken_over
from headrace_worker.adapters.declaring import ANY_MEDIA, Declaration
from headrace_worker.adapters.extras import needs
from headrace_worker.encoder import hinted
from headrace_worker.remembering import with_content

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


with needs("a2a"):
    from a2a.auth.user import User
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.context import ServerCallContext
    from a2a.types import AgentCard, SendMessageRequest, Task

RUN = "headrace.run"
"""Key of the call context's state under which an executor finds its `RunContext`."""

_ANONYMOUS = "anonymous"


def executor_agent(
    executor: AgentExecutor,
    *,
    name: str = "",
    card: AgentCard | None = None,
    auth_timeout: float = 300.0,
    **declared: Unpack[Declaration],
) -> Agent:
    """Make an agent of `executor`: `execute` is called for each message, `cancel` for a cancel.

    `card` is the agent's own: name, description, version, skills, media types, streaming and
    extensions are taken over where they are not given.
    Its task and context ids are those of the task in the log; from the second message on it finds
    the task in `current_task`. A Message that it says is COMPLETED's, or all of the answer where
    the agent is declared with `bare_message`. Returning while AUTH_REQUIRED it is called again with
    the user's answer, within `auth_timeout` seconds. The other keywords are `agent`'s.

    Raises:
        Misdeclared: as `agent`; or there is neither a name nor a card.
    """
    own = json_of(card) if card is not None else {}
    told: Any = {"input_modes": ANY_MEDIA, **taken_over(own), **_capabilities(own), **declared}
    told.setdefault("description", (executor.__doc__ or "").strip().partition("\n")[0])
    may_answer = declared.get("bare_message", False)

    async def clean_up(ended: EndedTask) -> None:
        await executor.cancel(_request_after(ended), Unheard())

    @agent(name=name or name_of(own), clean_up=clean_up, **told)
    async def run(ctx: RunContext) -> None:
        task = await _task(ctx) if ctx.run > 1 else None
        made = [] if task is None else json_of(task).get("artifacts", [])
        queue = LogQueue(ctx, made, may_answer=may_answer)
        request = await _request(ctx, ctx.message, task)
        try:
            await executor.execute(request, queue)
            while (answer := await queue.answer(auth_timeout)) is not None:
                request = await _request(ctx, answer, task or await _task(ctx))
                await executor.execute(request, queue)
        finally:
            await queue.close()
            if ctx.is_stopped:
                await _cancel(executor, ctx, request, queue)

    return run


async def _cancel(
    executor: AgentExecutor, ctx: RunContext, request: RequestContext, queue: LogQueue
) -> None:
    if request.current_task is None:
        with suppress(HeadraceError):
            request.current_task = await _task(ctx)
    await executor.cancel(request, queue)


async def _task(ctx: RunContext) -> Task:
    """Return the task so far, with the content of its files instead of links to them."""
    task = await ctx.load_task()
    said = [*task.get("history", ()), *task.get("artifacts", ())]
    if (message := task.get("status", {}).get("message")) is not None:
        said.append(message)
    for each in said:
        each["parts"] = [*await with_content(ctx, each.get("parts", ()))]
    return parsed(task, Task())


async def _request(ctx: RunContext, message: Json, task: Task | None) -> RequestContext:
    sent = {k: v for k, v in ctx.metadata.items() if not k.startswith("headrace.") or k == AGUI}
    message = {**message, "parts": [*await with_content(ctx, message.get("parts", ()))]}
    asked: Json = {"message": message, "metadata": sent}
    if ctx.accepted_output_modes:
        asked["configuration"] = {"acceptedOutputModes": [*ctx.accepted_output_modes]}
    return RequestContext(
        call_context=ServerCallContext(
            user=_Owner(ctx.owner),
            tenant=ctx.tenant,
            state={RUN: ctx},
            requested_extensions=set(ctx.extensions),
        ),
        request=parsed(asked, SendMessageRequest()),
        task_id=ctx.task,
        context_id=ctx.context,
        task=task,
        related_tasks=await _related(ctx, message),
    )


def _capabilities(card: Json) -> Json:
    """Return what a card says that its executor can do."""
    can: Json = card.get("capabilities") or {}
    return {key: can[key] for key in ("streaming", "extensions") if key in can}


def _request_after(ended: EndedTask) -> RequestContext:
    user = _Owner(ended.owner)
    return RequestContext(
        call_context=ServerCallContext(user=user, tenant=ended.key.tenant),
        task_id=ended.key.task,
        context_id=ended.context,
        task=parsed(ended.task, Task()),
    )


async def _related(ctx: RunContext, message: Json) -> list[Task]:
    named = set(message.get("referenceTaskIds", ()))
    if not named:
        return []
    tasks = await ctx.context_history()
    return [parsed(task, Task()) for task in tasks if task["id"] in named]


class _Owner(User):
    """Whose task it is."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return self._name != _ANONYMOUS

    @property
    def user_name(self) -> str:
        return self._name
