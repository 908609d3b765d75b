"""An `AgentExecutor` of the official A2A SDK, unchanged, as an agent."""

from contextlib import suppress
from typing import Any, Unpack

from headrace.model.errors import HeadraceError
from headrace.model.events import AGUI, Json
from headrace.sdk.agent import Agent, agent
from headrace.sdk.context import RunContext
from headrace.sdk.ended import EndedTask
from headrace_worker.adapters.a2a_json import json_of, parsed
from headrace_worker.adapters.cards import name_of, taken_over
from headrace_worker.adapters.declaring import ANY_MEDIA, Declaration
from headrace_worker.adapters.executor_queue import LogQueue, Unheard
from headrace_worker.adapters.extras import needs
from headrace_worker.remembering import with_content

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
