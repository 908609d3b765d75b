"""MCP, by the official Python client: tasks of the newest revision, streams of the one before."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import httpx2
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import ClientMessageMetadata
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ElicitRequestParams,
    ElicitResult,
    GetTaskPayloadRequest,
    GetTaskPayloadRequestParams,
    Result,
)

from headrace.adapters.mcp_tasks import (
    CancelTask,
    CreatedTask,
    McpTasks,
    PolledTask,
    PollTask,
    TaskParams,
)
from headrace.model.nesting import MAX_DEPTH
from tests.support.doors.door import Answer, Hostile, Refusal

NEWEST, PREVIOUS = "2026-07-28", "2025-11-25"

_PAUSE = 0.02


@asynccontextmanager
async def client(
    url: str,
    version: str = NEWEST,
    token: str = "",
    **options: Any,  # noqa: ANN401  # the client's own
) -> AsyncIterator[Client]:
    """Connect to the gateway at `url` in a revision of MCP."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        mode = "legacy" if version == PREVIOUS else version
        async with Client(transport, mode=mode, **options) as opened:
            assert opened.protocol_version == version
            yield opened


def text_of(result: CallToolResult) -> str:
    """Return the agent's text in a result."""
    assert isinstance(result.structured_content, dict), result
    return str(result.structured_content["text"])


class _Clients:
    """The clients of one answer: one after another, each at a gateway of its own.

    Each is open in a task of its own, because a client whose gateway dies cancels the task that
    opened it.
    """

    def __init__(self, version: str, token: str) -> None:
        self._version, self._token = version, token
        self._done = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def at(self, url: str) -> Client:
        """Leave the client before, and return one at `url`."""
        await self.close()
        self._done.clear()
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold(url, opened))
        both: list[asyncio.Future[Any]] = [opened, self._holding]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return opened.result() if opened.done() else await self._failed()

    async def close(self) -> None:
        """Leave the client, whose gateway may have died."""
        self._done.set()
        if self._holding is not None:
            await asyncio.gather(self._holding, return_exceptions=True)

    async def _failed(self) -> Client:
        assert self._holding is not None
        await self._holding
        raise AssertionError("it ended before it was open")

    async def _hold(self, url: str, opened: asyncio.Future[Client]) -> None:
        async with client(url, self._version, self._token, extensions=[McpTasks()]) as one:
            opened.set_result(one)
            await self._done.wait()


class _Task:
    """A call that goes on as a task, by which the client asks from time to time."""

    def __init__(self, clients: _Clients, opened: Client, handle: str) -> None:
        self._clients, self._client, self._handle = clients, opened, handle
        self.text = ""
        self.task = handle.partition(".")[2]

    async def until(self, text: str) -> None:
        while text not in self.text:
            await self._ask()

    async def rest(self) -> None:
        while (await self._ask()).status == "working":
            pass

    async def resume(self, url: str) -> None:
        self._client = await self._clients.at(url)

    async def stop(self, url: str) -> None:
        await self.resume(url)
        params = TaskParams(task_id=self._handle)
        await self._client.session.send_request(CancelTask(params=params), Result)

    async def _ask(self) -> PolledTask:
        await asyncio.sleep(_PAUSE)
        params = TaskParams(task_id=self._handle)
        state = await self._client.session.send_request(PollTask(params=params), PolledTask)
        self.text = state.status_message or ""
        if state.status == "completed":
            self.text = text_of(CallToolResult.model_validate(state.result))
        return state


class _Call:
    """A call whose progress is streamed."""

    def __init__(
        self, clients: _Clients, opened: Client, request: CallToolRequest | GetTaskPayloadRequest
    ) -> None:
        self._clients, self._client, self._request = clients, opened, request
        self.text = self.task = self._token = ""
        self._id: str | int = ""
        self._said = asyncio.Condition()
        self._calling = asyncio.create_task(self._call())

    async def until(self, text: str) -> None:
        async with self._said:
            await self._said.wait_for(lambda: text in self.text)

    async def rest(self) -> None:
        whole = text_of(await self._calling)
        assert whole.startswith(self.text)
        self.text = whole

    async def resume(self, url: str) -> None:
        self._client = await self._clients.at(url)
        self._calling = asyncio.create_task(self._call(self._token))

    async def stop(self, url: str) -> None:
        """Notify the server; the client does so by itself where it can't resume."""
        assert url
        params = CancelledNotificationParams(request_id=self._id)
        await self._client.session.send_notification(CancelledNotification(params=params))

    async def _call(self, resumed: str | None = None) -> CallToolResult:
        metadata = ClientMessageMetadata(
            resumption_token=resumed, on_resumption_token_update=self._came
        )
        return await self._client.session.send_request(
            self._request,
            CallToolResult,
            metadata=metadata,
            progress_callback=cast("ProgressFnT", self._progressed),
        )

    async def _came(self, token: str) -> None:
        self._token = token
        padded = token + "=" * (-len(token) % 4)
        _, self.task, _, self._id, *_ = json.loads(base64.urlsafe_b64decode(padded))

    async def _progressed(self, _: float, __: float | None, message: str | None) -> None:
        async with self._said:
            self.text += message or ""
            self._said.notify_all()


class Mcp:
    """One revision of MCP."""

    can_resume = True
    hostile: Sequence[Hostile] = (
        Hostile("/mcp", b"{", 400, "-32700"),
        Hostile("/mcp", b"[]", 400, "-32600"),
        Hostile("/mcp", b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, "id must be"),
        Hostile("/mcp", b'{"jsonrpc":"2.0","id":1,"method":5}', 400, "method must be"),
        Hostile(
            "/mcp",
            b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % (b"x" * 300),
            400,
            "at most 256",
        ),
        Hostile(
            "/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",'
            b'"_meta":{"progressToken":"%b"},"arguments":{"message":"x"}}}' % (b"x" * 300),
            200,
            "progressToken",
        ),
        Hostile("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', 200, "params.name"),
        Hostile(
            "/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",'
            b'"arguments":{"message":["x"]}}}',
            200,
            "arguments.message",
        ),
        Hostile("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"sampling/x"}', 200, "-32601"),
        Hostile(
            "/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tasks/result",'
            b'"params":{"taskId":"echo.x","_meta":{"progressToken":{}}}}',
            200,
            "params._meta.progressToken",
        ),
        Hostile("/mcp", b'{"jsonrpc":"2.0","id":"echo:x:%b","result":{}}' % (b"9" * 200), 202, ""),
        Hostile(
            "/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",'
            b'"arguments":{"message":'
            + b'{"a":' * (MAX_DEPTH + 1)
            + b"1"
            + b"}" * (MAX_DEPTH + 1)
            + b"}}}",
            200,
            "arguments.message",
        ),
    )

    def __init__(self, version: str) -> None:
        """Speak that revision."""
        self._version = version
        self.name = f"mcp-{version}"

    @asynccontextmanager
    async def begin(
        self, url: str, agent: str, text: str, token: str = ""
    ) -> AsyncIterator[Answer]:
        clients = _Clients(self._version, token)
        opened = await clients.at(url)
        try:
            if self._version == PREVIOUS:
                params = CallToolRequestParams(name=agent, arguments={"message": text})
                yield _Call(clients, opened, CallToolRequest(params=params))
            else:
                begun = await opened.session.call_tool(agent, {"message": text}, allow_claimed=True)
                assert isinstance(begun, CreatedTask)
                yield _Task(clients, opened, begun.task_id)
        finally:
            await clients.close()

    async def converse(self, url: str, agent: str, texts: Sequence[str]) -> list[str]:
        """Send the first text; the second one is what the user enters in the form."""
        first, answer = texts
        said = list[str]()

        async def elicit(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            said.append(params.message)
            return ElicitResult(action="accept", content={"answer": answer})

        async with client(url, self._version, elicitation_callback=elicit) as opened:
            said.append(text_of(await opened.call_tool(agent, {"message": first})))
        return said

    async def send_file(self, url: str, agent: str, content: bytes) -> str:
        file = {"name": "some.bin", "data": base64.b64encode(content).decode()}
        async with client(url, self._version) as opened:
            return text_of(await opened.call_tool(agent, {"message": "", "files": [file]}))

    async def refusal(self, url: str, agent: str, token: str = "") -> Refusal:
        refused: BaseException | None = None
        try:
            async with client(url, self._version, token) as opened:
                await opened.call_tool(agent, {"message": "hello"})
        except* (MCPError, httpx2.HTTPStatusError) as errors:
            refused = errors
        while isinstance(refused, BaseExceptionGroup):
            [refused] = refused.exceptions
        assert refused is not None, "it was not refused"
        return Refusal(type(refused).__name__, str(refused))

    async def can_read(self, url: str, task: str, agent: str, token: str) -> bool:
        params = TaskParams(task_id=f"{agent}.{task}")
        async with client(url, NEWEST, token, extensions=[McpTasks()]) as opened:
            try:
                await opened.session.send_request(PollTask(params=params), PolledTask)
            except MCPError:
                return False
        return True


@asynccontextmanager
async def _watched(version: str, url: str, agent: str, task: str) -> AsyncIterator[Answer]:
    handle = f"{agent}.{task}"
    clients = _Clients(version, "")
    opened = await clients.at(url)
    try:
        if version == PREVIOUS:
            params = GetTaskPayloadRequestParams(task_id=handle)
            yield _Call(clients, opened, GetTaskPayloadRequest(params=params))
        else:
            yield _Task(clients, opened, handle)
    finally:
        await clients.close()


def watch(url: str, agent: str, task: str) -> list[AbstractAsyncContextManager[Answer]]:
    """Follow a task that another door began, in each revision."""
    return [_watched(version, url, agent, task) for version in (NEWEST, PREVIOUS)]
