"""MCP's Tasks extension for the official client: a long call returns a task, which is polled.

A call that goes on as a task survives its connection, and the death of the server's process that
began it. If the caller is cancelled, so is the task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    Request,
    RequestParams,
    Result,
)

from headrace.model.events import Json

EXTENSION = "io.modelcontextprotocol/tasks"

_PAUSE = 1.0
"""Seconds between two polls, where the server suggests none."""
_SHORTEST = 0.05
_TRIES = 20
"""Polls in a row that the connection may fail."""

_CANCEL_TIMEOUT = 5.0

type Answers = Callable[[Mapping[str, Json]], Awaitable[Mapping[str, Json]]]
"""Returns the responses to a task's requests, both by their keys; those left out stay open."""


class TaskParams(RequestParams):
    """The task that a request is about."""

    task_id: str


class _UpdateParams(TaskParams):
    input_responses: dict[str, Any]


class PollTask(Request[TaskParams, Literal["tasks/get"]]):
    """Asks for a task's state."""

    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    """Asks the server to cancel a task."""

    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams


class _UpdateTask(Request[_UpdateParams, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams


class PolledTask(Result):
    """A task as the server reports it."""

    task_id: str
    status: Literal["working", "input_required", "completed", "cancelled", "failed"]
    status_message: str | None = None
    poll_interval_ms: int | None = None
    input_requests: dict[str, Json] | None = None
    result: Json | None = None
    error: Json | None = None


class CreatedTask(Result):
    """The task that a server returns in place of a tool's result."""

    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int | None = None


class McpTasks(ClientExtension):
    """Follows the tasks that servers return in place of results."""

    identifier = EXTENSION

    def __init__(self, answers: Answers | None = None) -> None:
        """Have `answers` respond to requests of tasks; None leaves them open."""
        self._answers = answers

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the claim on tools' results."""
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: CreatedTask, ctx: ClaimContext) -> CallToolResult:
        call = _TaskCall(ctx, created, self._answers)
        try:
            return await call.result()
        except asyncio.CancelledError:
            await call.cancel()
            raise


class _TaskCall:
    def __init__(self, ctx: ClaimContext, created: CreatedTask, answers: Answers | None) -> None:
        self._session, self._answers = ctx.session, answers
        self._id, self._pause_ms = created.task_id, created.poll_interval_ms
        self._answered = set[str]()

    async def result(self) -> CallToolResult:
        """Return the task's result.

        Raises:
            MCPError: The task failed, or was cancelled, or its server does not answer.
        """
        while True:
            task = await self._polled()
            if task.status == "completed":
                return CallToolResult.model_validate(task.result or {})
            if task.status == "failed":
                error = task.error or {}
                code = error.get("code", INTERNAL_ERROR)
                raise MCPError(code, str(error.get("message") or task.status_message or "failed"))
            if task.status == "cancelled":
                raise MCPError(INTERNAL_ERROR, "the server cancelled the task")
            await self._answer(task.input_requests or {})
            await asyncio.sleep(self._pause())

    async def cancel(self) -> None:
        """Ask the server to cancel the task; its outcome does not matter to anybody."""
        request = CancelTask(params=TaskParams(task_id=self._id))
        with suppress(MCPError, TimeoutError):
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self._session.send_request(request, Result)

    async def _answer(self, requests: Mapping[str, Json]) -> None:
        new = {key: one for key, one in requests.items() if key not in self._answered}
        if not new or self._answers is None:
            return
        responses = dict(await self._answers(new))
        self._answered |= responses.keys()
        params = _UpdateParams(task_id=self._id, input_responses=responses)
        await self._session.send_request(_UpdateTask(params=params), Result)

    async def _polled(self, tries: int = _TRIES) -> PolledTask:
        request = PollTask(params=TaskParams(task_id=self._id))
        try:
            return await self._session.send_request(request, PolledTask)
        except MCPError as error:
            if error.code == INVALID_PARAMS or not tries:
                raise
        await asyncio.sleep(self._pause())
        return await self._polled(tries - 1)

    def _pause(self) -> float:
        suggested = self._pause_ms
        return _PAUSE if suggested is None else max(suggested / 1000, _SHORTEST)
