"""The tools of MCP servers, over stdio and streamable HTTP."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headrace import Agent, Emission, Retry, RunContext, ToolError, agent
from headrace.adapters.event_stream import LARGEST
from headrace.model.events import INTERRUPTS
from headrace.model.user_message import answer_parts, user_message
from headrace.sdk.errors import Misdeclared
from tests.integration.worker.conftest import Working
from tests.support.asgi_server import asgi_server
from tests.support.chat_stub import Reply, call, chat_stub, deltas
from tests.support.log_reading import (
    answer,
    calls,
    folded,
    results,
    state,
    words,
)
from tests.support.task_submitter import TaskSubmitter

if TYPE_CHECKING:
    from headrace.adapters import McpServer


_CLOCK = Path(__file__).resolve().parents[4] / "examples" / "mcp_clock.py"

_SERVER = """
import os
from mcp.server import MCPServer
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send
server = MCPServer("test")
@server.tool()
def pid() -> int:
    return os.getpid()
@server.tool()
def fail() -> str:
    raise ValueError("no luck")
server.run("stdio")
"""


_IMPORTED_UNDER_CAPTURE = f"""
import asyncio, io, sys
real, sys.stderr = sys.stderr, io.StringIO()
from headrace.adapters import McpServer
McpServer(command=["true"])
sys.stderr = real
async def names() -> str:
    async with McpServer(command=[sys.executable, "-c", {_SERVER!r}]).open() as tools:
        return " ".join(tool.name for tool in tools)
print(asyncio.run(names()))
"""


def caller(server: "McpServer", *names: str) -> Agent:
    """Return an agent that calls the tools it is asked to, with their JSON arguments."""

    @agent(
        name="caller",
        retry=Retry(backoff=0.0, attempts=2),
    )
    async def run(ctx: RunContext) -> AsyncIterator[Emission]:
        async with server.open() as found:
            tools = {tool.name: tool for tool in found}
            for name in names:
                try:
                    yield f"{await ctx.call(tools[name])} "
                except ToolError:
                    yield "failed "

    return run


async def test_the_example_calls_its_servers_tool(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(_CLOCK.parent))
    monkeypatch.delitem(sys.modules, "mcp_clock", raising=False)
    import mcp_clock  # it lies among the examples

    async with working(mcp_clock.clock):
        done = await folded(await submitter.start("clock", "10:30 45"))
    assert (state(done), answer(done)) == ("COMPLETED", "11:15")
    assert calls(done) == [("add_minutes", {"time": "10:30", "minutes": 45})]
    assert results(done) == [("11:15", "")]


async def test_one_process_serves_all_runs_and_a_dead_one_is_started_anew(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import McpServer

    server = McpServer(command=[sys.executable, "-c", _SERVER])
    async with working(caller(server, "pid", "pid")):
        first = answer(await folded(await submitter.start("caller", "x")))
        again = answer(await folded(await submitter.start("caller", "x")))
        pids = set(first.split()) | set(again.split())
        assert len(pids) == 1
        os.kill(int(pids.pop()), signal.SIGKILL)
        lost = answer(await folded(await submitter.start("caller", "x")))
        anew = answer(await folded(await submitter.start("caller", "x")))
    assert "failed" in lost or lost != first
    assert anew != first
    assert "failed" not in anew


async def test_a_server_starts_whatever_standard_error_was_when_the_sdk_was_imported() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _IMPORTED_UNDER_CAPTURE),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaints = await process.communicate()
    assert (said.decode().split(), process.returncode) == (["pid", "fail"], 0), complaints


async def test_a_tools_failure_is_its_answer(submitter: TaskSubmitter, working: Working) -> None:
    from headrace.adapters import McpServer

    server = McpServer(command=[sys.executable, "-c", _SERVER])
    async with working(caller(server, "fail")):
        done = await folded(await submitter.start("caller", "x"))
    assert answer(done) == "failed "
    [(_, error)] = results(done)
    assert "fail" in error


async def test_a_model_calls_tools_over_http_under_a_prefix(
    submitter: TaskSubmitter, working: Working
) -> None:
    from mcp.server import MCPServer

    from headrace.adapters import McpServer, openai_agent

    served = MCPServer("shop")

    @served.tool(name="price.of")
    def price(item: str) -> int:
        """Tell a price."""
        return len(item)

    @served.tool()
    def secret() -> str:
        """Tell nobody."""
        return "secret"

    first = deltas(
        call(0, id="c", name="shop_price_of", arguments='{"item": "tea"}'), finish="tool_calls"
    )
    async with (
        asgi_server(served.streamable_http_app(), lifespan="on") as served_at,
        chat_stub(Reply(first), Reply(deltas({"content": "Three."}))) as stub,
    ):
        tools = McpServer(f"{served_at}/mcp", prefix="shop_", only=["price.of"], keep=0)
        model = openai_agent(
            name="m", model="s", base_url=stub.url, api_key="k", tools=[tools], memory="task"
        )
        async with working(model):
            done = await folded(await submitter.start("m", "How much?"))
    assert (answer(done), results(done)) == ("Three.", [(3, "")])
    [offered] = stub.requests[0]["tools"]
    assert offered["function"]["name"] == "shop_price_of"
    assert offered["function"]["description"] == "Tell a price."
    assert offered["function"]["parameters"]["required"] == ["item"]


def _provisioner() -> Starlette:
    """Return a server whose tool asks for a region, and then for a size."""
    from mcp.server import Server, ServerRequestContext
    from mcp.types import (
        CallToolRequestParams,
        CallToolResult,
        ElicitRequest,
        ElicitRequestFormParams,
        ElicitResult,
        InputRequiredResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
    )

    def asking(name: str, state: str) -> InputRequiredResult:
        schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
        form = ElicitRequestFormParams(message=f"Which {name}?", requested_schema=schema)
        return InputRequiredResult(
            input_requests={name: ElicitRequest(params=form)}, request_state=state
        )

    async def list_tools(
        _: ServerRequestContext, __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tool = Tool(name="provision", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool])

    async def call_tool(
        _: ServerRequestContext, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        given = [
            next(iter((one.content or {}).values()), "nothing")
            for one in (params.input_responses or {}).values()
            if isinstance(one, ElicitResult)
        ]
        known = [*filter(None, (params.request_state or "").split(",")), *map(str, given)]
        if len(known) < 2:
            return asking(("region", "size")[len(known)], ",".join(known))
        return CallToolResult(content=[TextContent(type="text", text=" ".join(known))])

    server = Server("provisioner", on_list_tools=list_tools, on_call_tool=call_tool)
    return server.streamable_http_app()


async def test_a_servers_questions_are_the_users_one_after_another(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import McpServer, openai_agent

    first = deltas(call(0, id="c", name="provision", arguments="{}"), finish="tool_calls")
    async with (
        asgi_server(_provisioner(), lifespan="on") as served_at,
        chat_stub(Reply(first), Reply(deltas({"content": "Done."}))) as stub,
    ):
        tools = McpServer(f"{served_at}/mcp", keep=0)
        model = openai_agent(
            name="m", model="s", base_url=stub.url, api_key="k", tools=[tools], memory="task"
        )
        async with working(model):
            task = await submitter.start("m", "Provision it.")
            asked = await folded(task)
            assert (state(asked), words(asked)) == ("INPUT_REQUIRED", "Which region?")
            [interrupt] = (await task.events())[-1]["statusUpdate"]["metadata"][INTERRUPTS]
            assert (interrupt["toolCallId"], results(asked), len(stub.requests)) == ("c", [], 1)
            await task.follow_up("Oslo")
            asked = await folded(task)
            assert words(asked) == "Which size?"
            await task.follow_up_with(user_message(answer_parts({"c": {"size": "large"}})))
            done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Done.")
    assert results(done) == [("Oslo large", "")]
    told = [message["role"] for message in stub.requests[1]["messages"]]
    assert told == ["user", "assistant", "tool"]


async def test_a_server_that_is_not_there_is_tried_again_and_given_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import McpServer

    for server in (McpServer(command=["/nowhere/at/all"]), McpServer(f"http://127.0.0.1:{1}/mcp")):
        async with working(caller(server)):
            done = await folded(await submitter.start("caller", "x"))
        assert state(done) == "FAILED"
        assert "does not respond" in words(done)


async def test_a_compressed_answer_is_not_read(submitter: TaskSubmitter, working: Working) -> None:
    from mcp.server import MCPServer

    from headrace.adapters import McpServer

    packing = GZipMiddleware(MCPServer("shop").streamable_http_app(json_response=True), 0)

    async def always_packing(scope: Scope, receive: Receive, send: Send) -> None:
        others = [h for h in scope.get("headers", ()) if h[0] != b"accept-encoding"]
        wants = {**scope, "headers": [*others, (b"accept-encoding", b"gzip")]}
        await packing(wants, receive, send)

    async with (
        asgi_server(always_packing, lifespan="on") as url,
        working(caller(McpServer(f"{url}/mcp", timeout=5.0))),
    ):
        done = await folded(await submitter.start("caller", "x"))
    assert state(done) == "FAILED"
    assert "does not respond" in words(done)


class EndlessServer:
    """A server whose list of tools has no end: its pages, or its bytes."""

    def __init__(self, *, pages: bool, pause: float = 0) -> None:
        self._has_pages, self._pause, self.lists, self.sent = pages, pause, 0, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Starlette(routes=[Route("/mcp", self.answer, methods=["POST"])])(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        requests = await request.json()
        if requests["method"] == "initialize":
            info = {"name": "endless", "version": "1"}
            version = requests["params"]["protocolVersion"]
            found = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            return JSONResponse({"jsonrpc": "2.0", "id": requests["id"], "result": found})
        if requests["method"] != "tools/list":
            return Response(status_code=404 if "id" in requests else 202)
        self.lists += 1
        await asyncio.sleep(self._pause)
        if self._has_pages:
            tools = [{"name": f"t{self.lists}", "inputSchema": {"type": "object"}}]
            page = {"tools": tools, "nextCursor": "more"}
            return JSONResponse({"jsonrpc": "2.0", "id": requests["id"], "result": page})
        return StreamingResponse(self._endless(), media_type="application/json")

    async def _endless(self) -> AsyncIterator[bytes]:
        yield b'{"jsonrpc": "2.0", "result": "'
        while self.sent < 4 * LARGEST:
            self.sent += 1024 * 1024
            yield b"x" * 1024 * 1024
            await asyncio.sleep(0)  # A disconnect is noticed between two turns of the loop.


@pytest.mark.parametrize("pages", [True, False])
async def test_a_list_of_tools_is_not_read_without_end(
    submitter: TaskSubmitter,
    working: Working,
    *,
    pages: bool,
) -> None:
    from headrace.adapters import McpServer
    from headrace.adapters.mcp_tools import MOST_PAGES

    endless = EndlessServer(pages=pages)

    @agent(name="once", retry=Retry(attempts=1))
    async def once(ctx: RunContext) -> str:
        async with McpServer(f"{url}/mcp").open() as found:
            return f"{ctx.prompt}: {len(found)} tools"

    async with asgi_server(endless) as url, working(once):
        done = await folded(await submitter.start("once", "x"))
    assert state(done) == "FAILED"
    assert "does not respond" in words(done)
    assert endless.lists == (MOST_PAGES if pages else 1)
    assert endless.sent < 2 * LARGEST


async def test_a_list_of_tools_has_the_time_of_a_call(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import McpServer
    from headrace.adapters.mcp_tools import MOST_PAGES

    slow = EndlessServer(pages=True, pause=0.2)

    @agent(name="late", retry=Retry(attempts=1))
    async def late(ctx: RunContext) -> str:
        async with McpServer(f"{url}/mcp", timeout=1.0).open() as found:
            return f"{ctx.prompt}: {len(found)} tools"

    async with asgi_server(slow) as url, working(late):
        done = await folded(await submitter.start("late", "x"))
    assert state(done) == "FAILED"
    assert "does not respond" in words(done)
    assert slow.lists < MOST_PAGES


@pytest.mark.parametrize("given", [{}, {"url": "http://x.test", "command": ["x"]}])
def test_a_server_needs_one_place(given: dict[str, object]) -> None:
    from headrace.adapters import McpServer

    with pytest.raises(Misdeclared, match="either a url or a command"):
        McpServer(**given)  # type: ignore[arg-type]  # what is refused
