"""MCP's Tasks extension for the official client: a long call returns a task, which is polled.

A call that goes on as a task survives its connection, and the death of the server's process that
began it. If the caller is cancelled, so is the task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    ElicitResult,
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

type Answers = Callable[[Mapping[str, Json]], Awaitable[Mapping[str, ElicitResult]]]
"""Returns the responses to a task's requests, both by their keys."""


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
    """Tells servers that the client follows tasks, and does so for `Client.call_tool`."""

    identifier = EXTENSION

    def __init__(self, answers: Answers | None = None) -> None:
        """Have `answers` respond to requests of tasks; None cancels them."""
        self._answers = answers

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the claim on tools' results."""
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: CreatedTask, ctx: ClaimContext) -> CallToolResult:
        task = RemoteTask(ctx.session, created.task_id, created.poll_interval_ms)
        while not isinstance(settled := await task.settled(), CallToolResult):
            answers = {} if self._answers is None else await self._answers(settled)
            await task.update(answers or dict.fromkeys(settled, ElicitResult(action="cancel")))
        return settled


class RemoteTask:
    """A task of a server, followed by polling."""

    def __init__(
        self, session: ClientSession, task: str, pause: int | None = None, known: Sequence[str] = ()
    ) -> None:
        """Follow the task with the id `task`.

        Args:
            session: The connection.
            task: The task's id.
            pause: The suggested pause between two polls, in milliseconds.
            known: Keys of the task's requests that have their responses.
        """
        self._session, self._params, self._pause_ms = session, TaskParams(task_id=task), pause
        self._known = set(known)

    async def settled(self) -> CallToolResult | Mapping[str, Json]:
        """Return the task's result, or the requests that it waits with, by key.

        If the caller is cancelled, so is the task.

        Raises:
            MCPError: The task failed, or was cancelled, or its server does not answer.
        """
        try:
            while not (settled := _settled(await self._polled(), self._known)):  # noqa: ASYNC110
                await asyncio.sleep(self._pause())  # The server is elsewhere: nothing tells.
        except asyncio.CancelledError:
            await self._cancel()
            raise
        return settled

    async def update(self, responses: Mapping[str, ElicitResult]) -> None:
        """Respond to requests of the task, by their keys.

        Raises:
            MCPError: The server refused them, or does not answer.
        """
        self._known |= responses.keys()
        given = {
            key: one.model_dump(mode="json", exclude_none=True) for key, one in responses.items()
        }
        params = _UpdateParams(task_id=self._params.task_id, input_responses=given)
        await self._session.send_request(_UpdateTask(params=params), Result)

    async def _cancel(self) -> None:
        """Ask the server to cancel the task; its outcome does not matter to anybody."""
        with suppress(MCPError, TimeoutError):
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self._session.send_request(CancelTask(params=self._params), Result)

    async def _polled(self, tries: int = _TRIES) -> PolledTask:
        try:
            return await self._session.send_request(PollTask(params=self._params), PolledTask)
        except MCPError as error:
            if error.code in {INVALID_PARAMS, CONNECTION_CLOSED} or not tries:
                raise
        await asyncio.sleep(self._pause())
        return await self._polled(tries - 1)

    def _pause(self) -> float:
        return _PAUSE if self._pause_ms is None else max(self._pause_ms / 1000, _SHORTEST)


def _settled(task: PolledTask, known: Collection[str]) -> CallToolResult | Mapping[str, Json]:
    """Return the result, or the requests without those that are `known`; empty: it goes on.

    Raises:
        MCPError: The task failed, or was cancelled.
    """
    match task.status:
        case "completed":
            return CallToolResult.model_validate(task.result or {})
        case "failed":
            error = task.error or {}
            why = str(error.get("message") or task.status_message or "the task failed")
            raise MCPError(error.get("code", INTERNAL_ERROR), why)
        case "cancelled":
            raise MCPError(INTERNAL_ERROR, "the server cancelled the task")
        case _:
            requests = task.input_requests or {}
            return {key: one for key, one in requests.items() if key not in known}
