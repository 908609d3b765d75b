"""Adapter for the tools of MCP servers, through the official SDK."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import httpx2
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    TextContent,
)
from mcp.types import Tool as McpTool

from headrace.adapters.event_stream import LARGEST, check_encoding, has_events
from headrace.adapters.mcp_tasks import CreatedTask, McpTasks, RemoteTask
from headrace.adapters.model_tool_names import model_tool_names
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.errors import MalformedOutput, Misdeclared, Retryable
from headrace.sdk.tool_call import ToolOutput, ToolQuestion
from headrace.sdk.tools import Tool

_ELICIT = "elicitation/create"

_ASKED = "asked"
"""In the state of a question: keys of the server's requests."""
_ANSWERED = "answered"
"""In the state of a task's question: keys of its earlier ones."""
_STATE = "requestState"
"""In the state of a call's question: the server's own."""
_TASK = "task"
"""In the state of a task's question: the task's id."""

_MOST_REASON = 300
"""Maximum characters of the reason why a connection failed; a server may have written it."""

MOST_PAGES = 100
"""Maximum pages of a server's list of tools."""


class McpServer:
    """The tools of an MCP server, local or over HTTP.

    All runs of a worker share one connection. It opens when a run first needs it, closes after
    `keep` seconds without a run, and reopens after it was lost.
    """

    def __init__(  # noqa: PLR0913  # the adapter's options
        self,
        url: str = "",
        *,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        headers: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
        prefix: str = "",
        timeout: float = 60.0,
        keep: float = 300.0,
    ) -> None:
        """Use the server at `url` (streamable HTTP) or the one that `command` starts (stdio).

        Args:
            url: URL of an HTTP server.
            command: Command of a local server, with its arguments.
            environment: Variables in addition to the few that a command inherits.
            folder: The command's working directory.
            headers: Headers of each HTTP request.
            only: Names of the tools to offer; by default, all.
            prefix: Prefix of the tools' names. Models take names of letters, digits, `_` and `-`;
                other characters become `_`.
            timeout: Maximum duration of a call, and of listing the tools, in seconds.
            keep: Seconds without a run after which the connection closes.

        Raises:
            Misdeclared: Neither or both of `url` and `command` are given.
        """
        if bool(url) == bool(command):
            raise Misdeclared("an MCP server needs either a url or a command")
        self.name = url or command[0]
        self.only, self.prefix, self.timeout, self.keep = only, prefix, timeout, keep
        self._url, self._headers = url, dict(headers or {})
        self._command, self._folder = list(command), folder
        self._environment = dict(environment) if environment is not None else None
        self._links: WeakKeyDictionary[asyncio.AbstractEventLoop, _McpLink] = WeakKeyDictionary()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Sequence[Tool]]:
        """Yield the tools, usable within the block.

        Raises:
            Retryable: The server can't be started or does not answer.
        """
        loop = asyncio.get_running_loop()
        link = self._links.get(loop)
        if link is None or link.is_gone:
            link = self._links[loop] = _McpLink(self)
        async with link.used():
            yield await link.tools()

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """Connect for the block; it must be entered and left in the same asyncio task."""
        async with AsyncExitStack() as stack:
            if self._url:
                timeout = httpx2.Timeout(self.timeout, connect=10.0)
                headers = {**self._headers, "Accept-Encoding": "identity"}
                hooks = {"response": [_check_answer]}
                http = httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks)
                await stack.enter_async_context(http)
                server = streamable_http_client(self._url, http_client=http)
            else:
                command = StdioServerParameters(
                    command=self._command[0],
                    args=self._command[1:],
                    env=self._environment,
                    cwd=self._folder,
                )
                # The SDK's default is what `sys.stderr` was when the SDK was imported.
                server = stdio_client(command, errlog=sys.__stderr__ or sys.stderr)
            client = Client(
                server,
                read_timeout_seconds=self.timeout,
                extensions=[McpTasks()],
                elicitation_callback=_not_in_time,
            )
            yield await stack.enter_async_context(client)


async def _not_in_time(
    context: ClientRequestContext,  # noqa: ARG001 - by name
    params: ElicitRequestParams,  # noqa: ARG001 - by name
) -> ElicitResult:
    """Cancel a question of a server of an older revision, which waits for the answer in the call.

    The user answers in a later run, perhaps on another worker.
    """
    return ElicitResult(action="cancel")


async def _check_answer(response: httpx2.Response) -> None:
    """Check the answer's encoding, and limit what is read of it.

    The SDK itself limits each event of a stream of events, to less.
    """
    check_encoding(response.headers)
    if not has_events(response.headers):
        response.stream = _LimitedBody(cast("httpx2.AsyncByteStream", response.stream))


class _LimitedBody(httpx2.AsyncByteStream):
    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._body:
            size += len(piece)
            if size > LARGEST:
                # The SDK answers one request with this error; others would end the connection.
                raise httpx2.StreamError(f"the server's answer has more than {LARGEST} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class _McpLink:
    """One connection, held by its own asyncio task: the task that opens it must close it."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._users = 0
        self._unused = asyncio.Event()
        self._client: asyncio.Future[tuple[Client, list[McpTool]]] = (
            asyncio.get_running_loop().create_future()
        )
        self._holding = asyncio.create_task(self._hold(), name=f"mcp {server.name}")

    @property
    def is_gone(self) -> bool:
        """Whether the connection is closed or about to close."""
        return self._holding.done() or self._unused.is_set()

    def drop(self) -> None:
        """Close this connection, so that the next run opens a new one."""
        self._unused.set()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                asyncio.get_running_loop().call_later(self.server.keep, self._end_if_unused)

    async def tools(self) -> list[Tool]:
        server = self.server
        try:
            client, found = await asyncio.shield(self._client)
        except Exception as error:
            why = _reason(error)
            raise Retryable(f"the MCP server {server.name} does not respond: {why}") from error
        offered = [tool for tool in found if server.only is None or tool.name in server.only]
        names = model_tool_names([server.prefix + tool.name for tool in offered])
        return [
            _RemoteTool(self, client, tool, name) for tool, name in zip(offered, names, strict=True)
        ]

    def _end_if_unused(self) -> None:
        if not self._users:
            self._unused.set()

    async def _hold(self) -> None:
        try:
            async with self.server.connected() as client:
                # Each page may take as long as a call, and nobody may wait for them any more.
                listed = await asyncio.wait_for(_listed(client), self.server.timeout)
                self._client.set_result((client, listed))
                await self._unused.wait()
        except Exception as error:  # noqa: BLE001  # `tools` raises it
            self._unused.set()
            if not self._client.done():
                self._client.set_exception(error)
                self._client.exception()


@dataclass(frozen=True)
class _RemoteTool:
    """One tool of a server."""

    link: _McpLink
    client: Client
    tool: McpTool
    name: str

    @property
    def description(self) -> str:
        return self.tool.description or self.tool.title or ""

    @property
    def parameters(self) -> Json:
        return self.tool.input_schema

    async def call(self, ctx: RunContext, arguments: Any) -> ToolOutput:  # noqa: ANN401  # any JSON
        """Call the tool; the server validates the arguments."""
        return await self._connected(ctx, self._called(arguments))

    async def answer(
        self,
        ctx: RunContext,
        arguments: Any,  # noqa: ANN401  # any JSON
        state: Json,
        answer: Any,  # noqa: ANN401  # any JSON
    ) -> ToolOutput:
        """Go on with the call that asked; the server validates the answer."""
        try:
            responses = _responses(state, answer)
        except ValueError as error:
            return ToolOutput(error=f"the user's answer does not fit the question: {error}")
        if (task := state.get(_TASK)) is None:
            return await self._connected(ctx, self._called(arguments, state, responses))
        return await self._connected(ctx, self._continued(str(task), state, responses))

    async def _called(
        self,
        arguments: Any,  # noqa: ANN401  # any JSON
        state: Json | None = None,
        responses: Mapping[str, ElicitResult] | None = None,
    ) -> ToolOutput:
        try:
            given = _object(arguments)
        except ValueError as error:
            return ToolOutput(error=f"arguments: {error}")
        result = await self.client.session.call_tool(
            self.tool.name,
            given,
            input_responses=None if responses is None else {**responses},
            request_state=(state or {}).get(_STATE),
            allow_input_required=True,
            allow_claimed=True,
        )
        if isinstance(result, CallToolResult):
            return _output_of(result)
        if isinstance(result, InputRequiredResult):
            return _question({_STATE: result.request_state}, _dumped(result.input_requests or {}))
        assert isinstance(result, CreatedTask)  # noqa: S101 - the only claim of this client
        task = RemoteTask(self.client.session, result.task_id, result.poll_interval_ms)
        return await _settled(task, {_TASK: result.task_id})

    async def _continued(
        self, task: str, state: Json, responses: Mapping[str, ElicitResult]
    ) -> ToolOutput:
        answered = [*state.get(_ANSWERED, ()), *state[_ASKED]]
        remote = RemoteTask(self.client.session, task, known=answered)
        await remote.update(responses)
        return await _settled(remote, {_TASK: task, _ANSWERED: answered})

    async def _connected(self, ctx: RunContext, calling: Awaitable[ToolOutput]) -> ToolOutput:
        """Return what the call returns, or why the connection failed."""
        timeout = self.link.server.timeout
        try:
            async with asyncio.timeout(timeout):
                return await calling
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self.link.drop()
            return ToolOutput(error=str(error))
        except TimeoutError:
            return ToolOutput(error=f"{self.name} did not answer within {timeout:g} s")
        except Exception:
            ctx.log.exception("connection to the MCP server %s lost", self.link.server.name)
            self.link.drop()
            return ToolOutput(error=f"{self.name} can't be reached")


def _reason(error: Exception) -> str:
    """Return why a connection failed; the SDK's tasks wrap the reason in groups."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)[:_MOST_REASON] or type(first).__name__


async def _settled(task: RemoteTask, state: Json) -> ToolOutput:
    """Return the result of a task, or its question."""
    settled = await task.settled()
    if isinstance(settled, CallToolResult):
        return _output_of(settled)
    return _question(state, settled)


def _dumped(requests: Mapping[str, InputRequest]) -> Json:
    return {key: one.model_dump(mode="json", by_alias=True) for key, one in requests.items()}


def _question(state: Json, requests: Mapping[str, Json]) -> ToolOutput:
    """Return the question that a server's requests are; its state has `state`."""
    others = {str(one.get("method")) for one in requests.values()} - {_ELICIT}
    if others or not requests:
        return ToolOutput(
            error=f"the server requests {', '.join(others) or 'nothing'} of its client"
        )
    asked = {key: one.get("params") or {} for key, one in requests.items()}
    schemas = {key: one.get("requestedSchema") or {"type": "object"} for key, one in asked.items()}
    schema = {"type": "object", "properties": schemas, "required": [*schemas]}
    if len(schemas) == 1:
        [schema] = schemas.values()
    message = "\n".join(" ".join(_told(one)) for one in asked.values())
    return ToolOutput(question=ToolQuestion(message, schema, {**state, _ASKED: [*requests]}))


def _told(params: Json) -> list[str]:
    """Return the words of a request, and the address where its user is to go."""
    return [str(params[name]) for name in ("message", "url") if params.get(name)]


def _responses(state: Json, answer: Any) -> Mapping[str, ElicitResult]:  # noqa: ANN401  # any JSON
    """Return the responses to the requests in `state`.

    Raises:
        ValueError: The answer is no form.
    """
    keys: list[str] = state[_ASKED]
    if answer is None:
        return dict.fromkeys(keys, ElicitResult(action="cancel"))
    given = {keys[0]: answer} if len(keys) == 1 else answer
    if not isinstance(given, dict):
        raise ValueError("must be an object")  # noqa: TRY004  # a user's value is wrong
    return {key: ElicitResult(action="accept", content=given.get(key)) for key in keys}


async def _listed(client: Client) -> list[McpTool]:
    """Return the server's tools.

    Raises:
        MalformedOutput: The list does not end.
    """
    found, cursor = list[McpTool](), None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise MalformedOutput(f"the list of tools has more than {MOST_PAGES} pages")


def _object(arguments: Any) -> Json:  # noqa: ANN401  # any JSON
    given = (
        json_text.decode_foreign(arguments or b"{}")
        if isinstance(arguments, str | bytes)
        else arguments
    )
    if not isinstance(given, dict):
        raise ValueError("must be an object")  # noqa: TRY004  # a model's value is wrong
    return given


def _output_of(result: CallToolResult) -> ToolOutput:
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    text = "\n".join(texts)
    if result.is_error:
        return ToolOutput(error=text or "it failed")
    if (structured := result.structured_content) is not None:
        # A result that is not an object comes wrapped in one.
        wrapped = isinstance(structured, dict) and structured.keys() == {"result"}
        return ToolOutput(structured["result"] if wrapped else structured)
    if len(texts) == len(result.content):
        return ToolOutput(text)
    return ToolOutput([part.model_dump(mode="json", exclude_none=True) for part in result.content])
