"""The agents that the page on frameworks shows: declared by its own lines, and asked."""

import asyncio
import sys
from typing import Any

import httpx
import pytest

from headrace import Agent
from headrace.testing import TestFleet
from tests.architecture.tree import ROOT
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.support.chat_stub import Reply, ag_ui_stub, chat_stub, deltas
from tests.support.document import shown
from tests.support.examples import example
from tests.support.scripted_executor import ScriptedExecutor
from tests.support.sdk_server import sdk_server

PAGE = ROOT / "docs" / "frameworks.md"
IMPORTS = """
from typing import *
from headrace import *
from headrace.adapters import *
from pydantic import Field
"""
"""What the page's blocks leave out."""


def declared(
    words: str,
    replaced: dict[str, str] | None = None,
    **names: Any,  # noqa: ANN401  # any object
) -> dict[str, Any]:
    """Execute the only block with `words` and return its names.

    Args:
        words: What no other block has.
        replaced: Addresses and commands of the page, each with what a test has instead.
        **names: What the page does not define.
    """
    code = shown(PAGE, words)
    for theirs, own in (replaced or {}).items():
        assert theirs in code
        code = code.replace(theirs, own)
    exec(IMPORTS + code, names)  # noqa: S102
    return names


async def answer(served: Agent, text: str) -> str:
    """Return what an agent answers in a fleet of its own."""
    async with TestFleet([served], timeout=60) as fleet:  # An MCP server may take long to start.
        return (await fleet.send(served.name, text)).text


@pytest.mark.parametrize("words", ['gambler, name="dice")', "deps=lambda ctx"])
async def test_a_pydantic_ai_agent_is_served(words: str) -> None:
    names = declared(words, gambler=example("pydantic_dice").gambler, Database=str)
    assert await answer(names["dice"], "roll") == "You rolled a four."


async def test_an_executor_is_served() -> None:
    names = declared("executor_agent(", Translator=example("executor").Translator)
    assert await answer(names["translator"], "french") == "Bonjour "


async def test_a_graph_is_served() -> None:
    shop = example("graph_approval")
    names = declared("langgraph_agent(", graph=shop.graph)
    async with TestFleet([names["refunds"]]) as fleet:
        task = await fleet.send("refunds", "nails")
    assert (task.state, task.text) == ("input-required", "The order is fine. ")


async def test_a_model_is_offered_the_tool() -> None:
    in_stock = declared("def in_stock")["in_stock"]
    async with chat_stub(Reply(deltas({"content": "None."}))) as stub:
        local = {"http://127.0.0.1:11434/v1": stub.url}
        oracle = declared('name="oracle"', local, in_stock=in_stock)["oracle"]
        assert await answer(oracle, "nails?") == "None."
    [offered] = stub.requests[0]["tools"]
    assert offered["function"]["parameters"]["properties"]["item"]["description"] == "In plural."


async def test_a_model_is_offered_the_tools_of_an_mcp_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = str(ROOT / "examples" / "mcp_clock.py")
    local = {'"uvx", "mcp-server-time"': f"{sys.executable!r}, {clock!r}"}
    async with chat_stub(Reply(deltas({"content": "Noon."}))) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        in_stock = declared("def in_stock")["in_stock"]
        names = declared("McpServer(", local, in_stock=in_stock)
        assert await answer(names["model"], "When?") == "Noon."
    offered = {each["function"]["name"] for each in stub.requests[0]["tools"]}
    assert offered == {"add_minutes", "in_stock"}


async def test_an_agent_of_the_openai_agents_sdk_is_served() -> None:
    script = [calls(("h1", "transfer_to_refunds", {})), replies("Refunded.")]
    async with chat_model(script) as model:
        front = example("agents_handoff", URL=model.url).front
        desk = declared("openai_agents_agent(", front=front)["desk"]
        assert await answer(desk, "My money!") == "Refunded."


async def test_an_agent_of_googles_adk_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gemini_model([replies("Hello.")]) as model:
        monkeypatch.setenv("GOOGLE_API_KEY", "k")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
        desk = declared("adk_agent(", front=example("adk_transfer").front)["desk"]
        assert await answer(desk, "Hi") == "Hello."


async def test_an_ag_ui_agent_behind_http_is_served() -> None:
    painted = [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "Painted."},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]
    async with ag_ui_stub(Reply(painted)) as stub:
        names = declared("ag_ui_agent(", {"http://127.0.0.1:9000/agent": stub.url})
        assert await answer(names["painter"], "a tree") == "Painted."


async def test_an_agent_elsewhere_is_served_with_its_credentials() -> None:
    async with sdk_server(ScriptedExecutor(), bindings=["JSONRPC"]) as server:
        server.headers["authorization"] = "Bearer token-1"
        local = {
            "https://outside.example.com": server.url,
            "https://login.example.com": server.url,
        }
        outside = await asyncio.to_thread(declared, "ClientCredentials(", local)
        assert await answer(outside["outside"], "bare") == "a bare message"
    [request] = server.issued
    assert request["auth"] == httpx.BasicAuth("id", "secret")._auth_header
