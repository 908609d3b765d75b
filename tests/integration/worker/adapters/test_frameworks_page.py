"""The agents that the pages on frameworks and tools show: declared by their lines, and asked."""

import asyncio
import sys
from pathlib import Path
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

FRAMEWORKS = ROOT / "docs" / "frameworks"
TOOLS = ROOT / "docs" / "tools.md"
IMPORTS = """
from typing import *
from headrace import *
from headrace.adapters import *
from pydantic import Field
"""
"""What blocks leave out that are no whole file."""
OLLAMA = "http://127.0.0.1:11434/v1"


def declared(
    page: Path,
    words: str,
    replaced: dict[str, str] | None = None,
    **names: Any,  # noqa: ANN401  # any object
) -> dict[str, Any]:
    """Execute the only block of a page with `words` and return its names.

    Args:
        page: The page.
        words: What no other block has.
        replaced: Addresses and commands of the page, each with what a test has instead.
        **names: What the page does not define.
    """
    code = shown(page, words)
    for theirs, own in (replaced or {}).items():
        assert theirs in code
        code = code.replace(theirs, own)
    exec(IMPORTS + code, names)  # noqa: S102
    return names


async def answer(served: Agent, text: str) -> str:
    """Return what an agent answers in a fleet of its own."""
    async with TestFleet([served], timeout=60) as fleet:  # An MCP server may take long to start.
        return (await fleet.send(served.name, text)).text


async def approved(served: Agent, text: str) -> str:
    """Return what an agent answers when its question is answered with yes."""
    async with TestFleet([served], timeout=60) as fleet:
        asked = await fleet.send(served.name, text)
        assert asked.state == "input-required"
        return (await asked.reply("yes")).text


REFUND = calls(("c1", "refund", {"order": "order 7"}))


async def test_an_agent_of_the_openai_agents_sdk_is_served() -> None:
    script = [calls(("h1", "transfer_to_refunds", {})), REFUND, replies("Refunded.")]
    async with chat_model(script) as model:
        page = FRAMEWORKS / "openai-agents.md"
        desk = declared(page, "openai_agents_agent(", {OLLAMA: model.url})["desk"]
        assert await approved(desk, "Refund order 7") == "Refunded."


async def test_an_agent_of_googles_adk_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gemini_model([REFUND, replies("Refunded.")]) as model:
        monkeypatch.setenv("GOOGLE_API_KEY", "k")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
        desk = declared(FRAMEWORKS / "adk.md", "adk_agent(")["desk"]
        assert await approved(desk, "Refund order 7") == "Refunded."


async def test_a_model_is_offered_the_tool() -> None:
    async with chat_stub(Reply(deltas({"content": "None."}))) as stub:
        page = FRAMEWORKS / "model-endpoint.md"
        oracle = declared(page, 'name="oracle"', {OLLAMA: stub.url})["oracle"]
        assert await answer(oracle, "nails?") == "None."
    [offered] = stub.requests[0]["tools"]
    told = offered["function"]["parameters"]["properties"]["item"]["description"]
    assert told == "The item, in the plural."


async def test_a_graph_is_compiled_with_the_fleets_saver() -> None:
    graph = example("graph_approval").graph
    saved = declared(FRAMEWORKS / "langgraph.md", "FleetSaver()", graph=graph)["saved"]
    assert type(saved.checkpointer).__name__ == "FleetSaver"
    assert type(saved.store).__name__ == "FleetStore"


async def test_a_model_is_offered_the_tools_of_an_mcp_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = str(ROOT / "examples" / "mcp_clock.py")
    local = {'"uvx", "mcp-server-time"': f"{sys.executable!r}, {clock!r}"}
    async with chat_stub(Reply(deltas({"content": "Noon."}))) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        in_stock = declared(TOOLS, "def in_stock")["in_stock"]
        names = declared(TOOLS, "McpServer(", local, in_stock=in_stock)
        assert await answer(names["model"], "When?") == "Noon."
    offered = {each["function"]["name"] for each in stub.requests[0]["tools"]}
    assert offered == {"add_minutes", "in_stock"}


async def test_an_ag_ui_agent_behind_http_is_served() -> None:
    painted = [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "assistant", "delta": "Painted."},
        {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"},
    ]
    async with ag_ui_stub(Reply(painted)) as stub:
        local = {"http://127.0.0.1:9000/agent": stub.url}
        names = declared(FRAMEWORKS / "remote-ag-ui.md", "ag_ui_agent(", local)
        assert await answer(names["painter"], "a tree") == "Painted."


async def test_an_agent_elsewhere_is_served_with_its_credentials() -> None:
    async with sdk_server(ScriptedExecutor(), bindings=["JSONRPC"]) as server:
        server.headers["authorization"] = "Bearer token-1"
        local = {
            "https://outside.example.com": server.url,
            "https://login.example.com": server.url,
        }
        page = FRAMEWORKS / "remote-a2a.md"
        outside = await asyncio.to_thread(declared, page, "ClientCredentials(", local)
        assert await answer(outside["outside"], "bare") == "a bare message"
    [request] = server.issued
    assert request["auth"] == httpx.BasicAuth("id", "secret")._auth_header
