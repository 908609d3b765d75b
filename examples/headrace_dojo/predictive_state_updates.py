"""Predictive state updates: a document appears while it is written, and stays if confirmed."""

import asyncio
from collections.abc import AsyncIterator

import orjson

from headrace import (
    Card,
    Custom,
    Emission,
    InputRequired,
    RunContext,
    State,
    ToolArguments,
    ToolResult,
    agent,
)
from headrace_dojo.frontend import results
from headrace_dojo.pacing import PAUSE, paced

TOOL = "write_document"
CONFIRM = "confirm_changes"
_PREDICTED = [{"state_key": "document", "tool": TOOL, "tool_argument": "document"}]
_PIECE = 12


@agent(
    name="predictive_state_updates",
    description="Writes a document while you watch.",
    card=Card(
        capabilities={
            "state": {"snapshots": True},
            "tools": {"supported": True, "clientProvided": True},
        }
    ),
)
async def predictive_state_updates(ctx: RunContext) -> AsyncIterator[Emission]:
    """Write a document, then keep or drop it as the user decides."""
    if answered := results(ctx):
        is_kept = _accepts(answered[-1].content)
        if not is_kept:
            yield State({"document": ""})
        async for word in paced("The document is kept." if is_kept else "The document is gone."):
            yield word
        return
    yield Custom("PredictState", _PREDICTED)
    document = f"# {ctx.prompt}\n\nOnce upon a time there was {ctx.prompt}. The end."
    call, written = ctx.new_id("call"), orjson.dumps({"document": document}).decode()
    for start in range(0, len(written), _PIECE):
        yield ToolArguments(call, written[start : start + _PIECE], TOOL)
        await asyncio.sleep(PAUSE)
    yield ToolArguments(call, "", TOOL, end=True)
    await ctx.emit(ToolResult(call, "Written, to be confirmed."))
    yield State({"document": document})
    yield InputRequired(tool_calls=[await ctx.tool_call(CONFIRM, {})])


def _accepts(content: object) -> bool:
    """Return whether the user confirms, with ``{"accepted": true}`` or with text."""
    try:
        return bool(orjson.loads(str(content))["accepted"])
    except (KeyError, TypeError, ValueError):
        return "accept" in str(content).lower() or "confirm" in str(content).lower()
