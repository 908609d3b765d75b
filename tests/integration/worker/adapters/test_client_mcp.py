"""MCP servers that a run's client names: allowed ones only, under names of their own."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headrace import Agent
from headrace.model.events import Json
from headrace.sdk.errors import Misdeclared
from tests.integration.worker.conftest import Working
from tests.support.asgi_server import asgi_server
from tests.support.chat_stub import Reply, call, chat_stub, deltas
from tests.support.log_reading import answer, folded, results, state, words
from tests.support.task_submitter import TaskSubmitter


def shop() -> Starlette:
    """Return a server whose tool tells prices."""
    from mcp.server import MCPServer

    served = MCPServer("shop")

    @served.tool()
    def price(item: str) -> int:
        """Tell a price."""
        return len(item)

    return served.streamable_http_app()


def model(url: str, allow: list[str]) -> Agent:
    from headrace.adapters import ClientMcpServers, openai_agent

    tools = [ClientMcpServers(allow, timeout=5.0)]
    return openai_agent(
        name="guest", model="s", base_url=url, api_key="k", tools=tools, memory="task"
    )


def sent(servers: object) -> Json:
    """Return the metadata of a run whose client names `servers`."""
    return {"headrace.agui": {"forwardedProps": {"mcpServers": servers}}}


async def test_a_model_calls_the_tools_of_the_clients_server(
    submitter: TaskSubmitter, working: Working
) -> None:
    first = deltas(
        call(0, id="c", name="mine_price", arguments='{"item": "tea"}'), finish="tool_calls"
    )
    replies = Reply(first), Reply(deltas({"content": "3"})), Reply(deltas({"content": "no"}))
    async with asgi_server(shop(), lifespan="on") as served_at, chat_stub(*replies) as stub:
        named = sent([{"url": f"{served_at}/mcp", "name": "mine"}])
        async with working(model(stub.url, [served_at])):
            done = await folded(await submitter.start("guest", "How much?", metadata=named))
            other = await folded(await submitter.start("guest", "And without one?"))
    assert (answer(done), results(done)) == ("3", [(3, "")])
    assert [one["function"]["name"] for one in stub.requests[0]["tools"]] == ["mine_price"]
    assert answer(other) == "no"
    assert "tools" not in stub.requests[2], "they are that run's only"


@pytest.mark.parametrize(
    ("servers", "place"),
    [
        ([{"url": "http://169.254.169.254/mcp"}], "[0].url"),
        ([{"url": "https://tools.test.evil.test/mcp"}], "[0].url"),
        ([{"url": "https://tools.test@evil.test/mcp"}], "[0].url"),
        ([{"url": "https://tools.test:8443/mcp"}], "[0].url"),
        ([{"url": "http://tools.test/mcp"}], "[0].url"),
        ([{"url": "https://evil.test\\@tools.test/mcp"}], "[0].url"),
        ([{"url": "https://one.test/mcp/more"}], "[0].url"),
        ([{"url": 5}], "[0].url"),
        ([{"url": "https://tools.test/mcp", "headers": {"Authorization": "x"}}], "[0] must"),
        ([{"url": "https://tools.test/mcp", "name": "a_b"}], "[0].name"),
        ("https://tools.test/mcp", "must be a list"),
        ([{"url": "https://tools.test/mcp"}] * 5, "at most 4"),
    ],
)
async def test_a_server_that_is_not_allowed_is_not_reached(
    submitter: TaskSubmitter, working: Working, servers: object, place: str
) -> None:
    async with chat_stub() as stub:
        agent = model(stub.url, ["https://tools.test", "https://one.test/mcp"])
        async with working(agent):
            done = await folded(await submitter.start("guest", "x", metadata=sent(servers)))
    assert state(done) == "REJECTED"
    assert place in words(done)
    assert stub.requests == []


async def test_a_tool_of_a_client_takes_no_other_ones_name(
    submitter: TaskSubmitter, working: Working
) -> None:
    from headrace.adapters import ClientMcpServers, openai_agent

    def mine_price(item: str) -> str:
        """Tell a price."""
        return item

    async with asgi_server(shop(), lifespan="on") as served_at, chat_stub() as stub:
        agent = openai_agent(
            name="guest",
            model="s",
            base_url=stub.url,
            api_key="k",
            memory="task",
            tools=[ClientMcpServers([served_at]), mine_price],
        )
        named = sent([{"url": f"{served_at}/mcp", "name": "mine"}])
        async with working(agent):
            done = await folded(await submitter.start("guest", "x", metadata=named))
    assert state(done) == "REJECTED"
    assert "'mine_price'" in words(done)
    assert stub.requests == []


async def test_no_redirect_is_followed(submitter: TaskSubmitter, working: Working) -> None:
    reached = list[str]()

    async def secret(request: Request) -> Response:
        reached.append(request.url.path)
        return Response()

    inside = Starlette(routes=[Route("/secret", secret, methods=["GET", "POST"])])
    async with asgi_server(inside) as inside_at:

        async def lead(_: Request) -> Response:
            return RedirectResponse(f"{inside_at}/secret", 307)

        outside = Starlette(routes=[Route("/mcp", lead, methods=["GET", "POST"])])
        async with asgi_server(outside) as outside_at, chat_stub() as stub:
            named = sent([{"url": f"{outside_at}/mcp"}])
            agent = model(stub.url, [outside_at])
            async with working(agent):
                done = await folded(await submitter.start("guest", "x", metadata=named))
    assert state(done) == "FAILED"
    assert reached == []


@pytest.mark.parametrize("allow", [[], "https://x.test", ["ftp://x.test"], ["x.test"], ["*"]])
def test_what_is_allowed_must_be_stated(allow: list[str]) -> None:
    from headrace.adapters import ClientMcpServers

    with pytest.raises(Misdeclared, match="allow"):
        ClientMcpServers(allow)
