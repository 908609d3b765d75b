"""Adapter for an `AgentExecutor` of the official A2A SDK."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Unpack, override

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.types import (
    AgentCard,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)
from a2a.types import Message as A2AMessage

from headrace.adapters.a2a.cards import declare_as, name_of
from headrace.adapters.a2a.protojson import (
    artifact_of,
    json_of,
    message_of,
    outcome_of,
    parsed,
    prompt_of,
)
from headrace.adapters.conversation.memory import with_content
from headrace.adapters.declaration import Declaration, declare_card
from headrace.background import cancelled
from headrace.model.errors import HeadraceError
from headrace.model.events import AGUI, Json
from headrace.model.task import AUTH_REQUIRED, COMPLETED, RUN_ENDED
from headrace.sdk.agent import Agent, EndedTask, agent
from headrace.sdk.card import Card
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import Emission, Message, Outcome
from headrace.sdk.errors import MalformedOutput


class DiscardingQueue(EventQueue):
    """Queue of an executor whose task is over: its events are dropped."""

    @override
    async def enqueue_event(self, event: Event) -> None:
        """Drop the event."""


class LogQueue(EventQueue):
    """Queue that appends the executor's events to the log, with backpressure."""

    def __init__(self, ctx: RunContext, artifacts: list[Json], *, may_answer: bool) -> None:
        """Write to the log of `ctx`, whose task has `artifacts` so far.

        With `may_answer`, a Message that comes first is a bare answer instead of a task.
        """
        self._ctx, self._before, self._may_answer = ctx, artifacts, may_answer
        self._artifacts = {artifact["artifactId"] for artifact in artifacts}
        self._over = self._has_answered = False
        self._asking: asyncio.Task[Json] | None = None

    @override
    async def enqueue_event(self, event: Event) -> None:
        """Append `event`; events after the run's end are dropped, as in the SDK's servers.

        Raises:
            MalformedOutput: The event belongs to another task or violates A2A.
            RunOver: The run has ended independently of the executor.
        """
        if self._over:
            self._ctx.log.warning("dropped an event that the executor emitted after its end")
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
            TimeoutError: No answer came within `timeout` seconds.
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
        """Withdraw an open request for credentials."""
        asking, self._asking = self._asking, None
        if asking is not None:
            await cancelled(asking)

    async def _answer(self, message: Json) -> None:
        content = message.get("parts", [])
        if self._may_answer and not self._has_answered:
            await self._end(Message(parts=content))
        else:
            await self._end(Outcome(COMPLETED, content, message.get("metadata", {})))

    async def _task(self, task: Json) -> None:
        self._check(task.get("id", ""))
        for artifact in task.get("artifacts", []):
            if artifact in self._before:
                # Executors repeat the artifacts of the task that they were given.
                continue
            await self._artifact({"artifact": artifact, "lastChunk": True})
        await self._status(task.get("status", {}), task.get("metadata", {}))

    async def _artifact(self, update: Json) -> None:
        self._check(update.get("taskId", ""))
        chunk = artifact_of(update)
        if chunk.append and chunk.id not in self._artifacts:
            # Clients refuse to append to an artifact that does not exist.
            chunk = replace(chunk, append=False)
        self._artifacts.add(chunk.id)
        await self._emit(chunk)

    async def _status(self, status: Json, metadata: Json) -> None:
        state = status.get("state")
        if state in RUN_ENDED:
            await self._end(outcome_of(status, metadata))
        elif state == AUTH_REQUIRED:
            await self._ask(status.get("message", {}))
        elif (relayed := message_of(status, metadata)) is not None:
            await self._emit(relayed)
        else:
            await self.close()

    async def _ask(self, message: Json) -> None:
        await self.close()
        prompt = prompt_of(self._ctx, message)
        self._has_answered = True
        self._asking = asyncio.create_task(runtime_of(self._ctx).inputs.ask(prompt))
        # Start the request now, so that the log has it before the next event.
        await asyncio.sleep(0)

    async def _emit(self, emission: Emission) -> None:
        if self._asking is not None and not self._asking.done():
            # The executor continues: it got the credentials in another way.
            await self.close()
        self._has_answered = True
        await self._ctx.emit(emission)

    async def _end(self, emission: Emission) -> None:
        self._over = True
        await self.close()
        await self._ctx.emit(emission)

    def _check(self, task: str) -> None:
        if task and task != self._ctx.task:
            raise MalformedOutput(f"an event of another task: {task!r}")


RUN = "headrace.run"
"""Key of the executor's `RunContext` in the call context's state."""

_ANONYMOUS = "anonymous"


def executor_agent(
    executor: AgentExecutor,
    *,
    name: str = "",
    agent_card: AgentCard | None = None,
    auth_timeout: float = 300.0,
    **declared: Unpack[Declaration],
) -> Agent:
    """Return an agent that runs `executor`: `execute` for each message, `cancel` for a cancel.

    The executor gets the ids of the task and its context as in the log. From the second message on,
    `current_task` contains the task. A Message that it sends completes the task, or is the whole
    answer if the agent is declared with `bare_message`. An executor that returns in AUTH_REQUIRED
    is called again with the user's answer.

    Args:
        executor: The executor.
        name: The agent's name in the fleet; by default, the card's.
        agent_card: The agent's own card. Its name, description, version, skills, media types,
            streaming and extensions apply unless they are given here.
        auth_timeout: Seconds to wait for the user's answer to AUTH_REQUIRED.
        **declared: Keywords of `agent`.

    Raises:
        Misdeclared: Neither a name nor a card is given, or as for `agent`.
    """
    own = json_of(agent_card) if agent_card is not None else {}
    declare_card(declared, _capabilities(own))
    declare_as(declared, own)
    declared.setdefault("description", (executor.__doc__ or "").strip().partition("\n")[0])
    may_answer = declared.get("bare_message", False)

    async def clean_up(ended: EndedTask) -> None:
        await executor.cancel(_request_after(ended), DiscardingQueue())

    @agent(name=name or name_of(own), clean_up=clean_up, **declared)
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
    """Return the task so far, with the content of its files instead of links."""
    task = await ctx.load_task()
    items = [*task.get("history", ()), *task.get("artifacts", ())]
    if (message := task.get("status", {}).get("message")) is not None:
        items.append(message)
    for each in items:
        each["parts"] = [*await with_content(ctx, each.get("parts", ()))]
    return parsed(task, Task())


async def _request(ctx: RunContext, message: Json, task: Task | None) -> RequestContext:
    sent = {k: v for k, v in ctx.metadata.items() if not k.startswith("headrace.") or k == AGUI}
    message = {**message, "parts": [*await with_content(ctx, message.get("parts", ()))]}
    body: Json = {"message": message, "metadata": sent}
    if ctx.accepted_output_modes:
        body["configuration"] = {"acceptedOutputModes": [*ctx.accepted_output_modes]}
    return RequestContext(
        call_context=ServerCallContext(
            user=_Owner(ctx.owner),
            tenant=ctx.tenant,
            state={RUN: ctx},
            requested_extensions=set(ctx.extensions),
        ),
        request=parsed(body, SendMessageRequest()),
        task_id=ctx.task,
        context_id=ctx.context,
        task=task,
        related_tasks=await _related(ctx, message),
    )


def _capabilities(own: Json) -> Card:
    """Return a card with the A2A capabilities that the agent's own card declares."""
    can: Json = own.get("capabilities") or {}
    return Card(streaming=can.get("streaming", True), extensions=can.get("extensions", ()))


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
    """The owner of the task, as the SDK's user."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return self._name != _ANONYMOUS

    @property
    def user_name(self) -> str:
        return self._name
