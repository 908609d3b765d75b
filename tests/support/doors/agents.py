"""An agent that uses its client's tools, and asks before it uses its own."""

import asyncio
from collections.abc import AsyncIterator

from headrace import (
    Agents,
    Emission,
    InputRequired,
    Retryable,
    RunContext,
    ToolCall,
    ToolResult,
    agent,
)
from headrace.model import parts

CALL, APPROVED = "call-1", "call-2"


@agent()
async def shopkeeper(run: RunContext) -> AsyncIterator[Emission]:
    """Asks the client for the price, asks whether it may buy, and says what came of it."""
    results = [found for part in run.parts if (found := parts.tool_result(part)) is not None]
    decisions = [part["data"] for part in run.parts if parts.interrupt_id(part) == APPROVED]
    if results:
        yield f"It costs {results[0].content}. "
        yield ToolCall("buy", {"item": "nails"}, APPROVED)
        about = {"id": APPROVED, "reason": "tool_call", "toolCallId": APPROVED}
        yield InputRequired("Shall I buy it?", None, [about])
    elif decisions and decisions[0]["approved"]:
        yield ToolCall("buy", {"item": "nails"}, APPROVED)
        yield ToolResult(APPROVED, "bought")
        yield "Bought."
    elif decisions:
        yield f"Not bought: {decisions[0].get('reason')}"
    else:
        tools = [tool["name"] for tool in run.agui.get("tools") or ()]
        yield f"Asking {', '.join(tools)}. "
        items = run.prompt.split(" and ")
        for item in items:
            yield ToolCall("price", {"item": item}, f"{CALL} {item}")
        yield InputRequired(tool_calls=[f"{CALL} {item}" for item in items])


@agent()
async def forgetful(run: RunContext) -> AsyncIterator[Emission]:
    """Calls its client's tool for its attempt; the first attempt fails behind that."""
    yield ToolCall("price", {"attempt": run.attempt}, CALL)
    if run.attempt == 1:
        raise Retryable("it was another item", after=0)
    yield InputRequired(tool_calls=[CALL])


@agent(follow_ups="interrupt")
async def hasty(run: RunContext) -> AsyncIterator[str]:
    """Says a word, and works until the next message of the conversation comes."""
    yield run.prompt
    await asyncio.sleep(600)


agents = Agents([shopkeeper, forgetful, hasty])
