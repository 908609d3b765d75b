"""Agents whose output has what JSON and streams of lines are bad at."""

import math
from collections.abc import AsyncIterator

from headrace import (
    Agents,
    Data,
    Emission,
    RunContext,
    State,
    Status,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    agent,
)

SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei\r\nj\rk\x00l"
CUT = ["cut \ud83d", "\ude00 after, alone \ud83d"]
WHOLE = "cut \U0001f600 after, alone \ufffd"
BIG = {"above": 2**64 + 1, "below": -(2**63) - 1, "wei": 10**21, "largest": 10**308}


@agent()
async def separating(_: RunContext) -> AsyncIterator[Emission]:
    """Emits characters at which some clients end a line."""
    yield SEPARATORS
    yield Thinking(SEPARATORS, end=True)
    yield Data({SEPARATORS: SEPARATORS})
    yield State({"text": SEPARATORS})
    yield SEPARATORS


@agent()
async def cutting(_: RunContext) -> AsyncIterator[Emission]:
    """Cuts characters in two, in each kind of streamed text."""
    for piece in CUT:
        yield Thinking(piece)
    yield ToolArguments("call", '{"q":"', "search")
    for piece in CUT:
        yield ToolArguments("call", piece)
    yield ToolArguments("call", '"}', end=True)
    yield ToolResult("call", ["file \udce9.txt"])
    yield State({"\udc00": "\ud83d\ude00"})
    yield Status("half \udc00")
    for piece in CUT:
        yield piece


@agent()
async def counting(ctx: RunContext) -> AsyncIterator[Emission]:
    """Emits the integers of its input's metadata, and its own."""
    yield Data({"given": ctx.metadata.get("given"), "state": ctx.state, "own": BIG}, id="numbers")
    yield ToolCall("pay", BIG, id="call")
    yield ToolResult("call", BIG)
    yield State({**(ctx.state or {}), "own": BIG})


@agent()
async def measuring(_: RunContext) -> AsyncIterator[Emission]:
    """Emits numbers that JSON does not have, several times."""
    for value in (math.nan, math.inf, -math.inf):
        yield Data({"mean": [1.5, value]}, id="figures")


@agent()
async def overflowing(_: RunContext) -> AsyncIterator[Emission]:
    """Emits an integer that no double is near."""
    yield Data({"orders": [10**400]})


agents = Agents([separating, cutting, counting, measuring, overflowing])
