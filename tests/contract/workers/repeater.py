"""Agents that do what their message says, step by step; `repeater.mjs` has them in JavaScript."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

from headrace import (
    Complete,
    Data,
    Emission,
    File,
    InputRequired,
    Reject,
    Retryable,
    RunContext,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    agent,
)
from tests.support.gates import opened


@agent(name="repeater")
async def repeater(ctx: RunContext) -> AsyncIterator[Emission]:
    """Does the steps that the message's data lists."""
    async for output in _performed(ctx):
        yield output


@agent(name="loner", follow_ups="reject")
async def loner(ctx: RunContext) -> AsyncIterator[Emission]:
    """As the repeater, but takes no messages while it is at work."""
    async for output in _performed(ctx):
        yield output


async def _performed(ctx: RunContext) -> AsyncIterator[Emission]:
    for step in _steps(ctx):
        [(kind, given)] = step.items()
        match kind:
            case "sleep":
                await asyncio.sleep(given / 1000)
            case "dawdle":
                await asyncio.sleep(given / 1000 if ctx.attempt == 1 else 0)
            case "await":
                await opened(given)
            case "checkpoint":
                await ctx.checkpoint(given)
            case "fail":
                raise RuntimeError(given)
            case "retry":
                raise Retryable(given)
            case "echo":
                yield _told(ctx, given)
            case _:
                yield _SAID[kind](given)


def _steps(ctx: RunContext) -> list[dict[str, Any]]:
    script = ctx.parts[0].get("data", {"begin": [{"echo": "prompt"}]})
    steps: list[dict[str, Any]] = script["resume" if ctx.checkpoint_data else "begin"]
    return steps


def _told(ctx: RunContext, what: str) -> str:
    return ctx.prompt if what == "prompt" else json.dumps(ctx.checkpoint_data)


_SAID: Mapping[str, Callable[[Any], Emission]] = {
    "text": Text,
    "thinking": Thinking,
    "toolCall": lambda given: ToolCall(given["name"], given["arguments"], given["id"]),
    "toolResult": lambda given: ToolResult(given["id"], given["content"], given["error"]),
    "file": lambda given: File(given["name"], given["content"].encode(), given["mediaType"]),
    "data": lambda given: Data(given["value"], given["name"]),
    "status": Status,
    "inputRequired": lambda given: InputRequired(given["prompt"], given["schema"]),
    "reject": Reject,
    "complete": Complete,
    "nonsense": lambda _: cast("Emission", object()),
}
