"""The agents of the pictures."""

import asyncio
import os
from collections.abc import AsyncIterator

from headrace import Agents, Emission, InputRequired, RunContext, Thinking, ToolCall, agent, tool
from headrace.demo import counter

TOKENS = 90
_PAUSE = 0.1
STOCK = {"nails": 7}


@agent()
async def writer(ctx: RunContext) -> AsyncIterator[Emission]:
    """Writes numbered tokens at the pace of a model, after the process that it runs in."""
    yield f"process {os.getpid()}:"
    for token in range(ctx.checkpoint_data or 1, TOKENS + 1):
        yield f" {token}"
        await ctx.checkpoint(token + 1)
        await asyncio.sleep(_PAUSE)


@tool
def in_stock(item: str) -> int:
    """Return how many of an item are in stock."""
    return STOCK.get(item, 0)


@agent()
async def shop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Sells what is in stock."""
    item = (await ctx.history())[0]["parts"][0]["text"]
    if ctx.run == 1:
        yield Thinking(f"The user wants {item}. Are there any?", end=True)
        count = await ctx.call(in_stock, item=item)
        yield InputRequired(f"There are {count} {item}. How many would you like?")
    else:
        yield f"Sold: {ctx.prompt} {item}."


_REFUND = {"order_id": "A-1042", "amount": 120, "note": "The kettle came broken"}
_APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {
            "type": "object",
            "properties": {
                "order_id": {"title": "Order"},
                "amount": {"title": "Amount", "description": "In euros"},
                "note": {"title": "Note for the customer"},
            },
        },
        "reason": {"type": "string"},
    },
    "required": ["approved"],
}


@agent()
async def refunds(ctx: RunContext) -> AsyncIterator[Emission]:
    """Pays back what somebody has approved."""
    if ctx.run > 1:
        yield "Paid."
        return
    yield ToolCall("refund_order", _REFUND, "refund")
    prompt = "Refund 120 euros for order A-1042?"
    question = {"id": "refund", "reason": "tool_call", "toolCallId": "refund", "message": prompt}
    yield InputRequired(prompt, None, [{**question, "responseSchema": _APPROVAL}])


@agent()
async def repeat(ctx: RunContext) -> AsyncIterator[str]:
    """Repeats the words of its user at the pace of a model."""
    for word in ctx.prompt.split():
        yield f"{word} "
        await asyncio.sleep(_PAUSE)


@agent()
async def reporter(ctx: RunContext) -> AsyncIterator[Emission]:
    """Has a text written in parts by others."""
    parts = (ctx.delegate("repeat", f"{part} of {ctx.prompt}") for part in ("A title", "The body"))
    for result in await asyncio.gather(*parts, ctx.delegate("writer", "write")):
        yield f"{result.text}\n\n"


agents = Agents([counter, refunds, repeat, reporter, shop, writer])
