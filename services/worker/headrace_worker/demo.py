"""Demo agents without a model, to try the fleet and to test it."""

import asyncio
from collections.abc import AsyncIterator

from headrace.sdk.agent import Agents, Skill, agent
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Emission, File, Reject, Thinking, ToolResult

MAX_COUNT = 1_000_000
MAX_DELAY = 60_000
"""Milliseconds."""

_PAUSE = 0.02
"""Seconds between the assistant's words, about the pace of a model."""


@agent(
    name="echo",
    description="Answers with the message's text.",
    skills=[Skill("echo", "Echo", "Repeats your message.", ["demo"], ["hello"])],
)
async def echo(ctx: RunContext) -> AsyncIterator[Emission]:
    """Answer with the message's text."""
    yield ctx.prompt


@agent(
    name="assistant",
    description="Thinks, calls a tool, answers in a stream and hands over a file; has no model.",
    skills=[
        Skill(
            "assist",
            "Assist",
            "Shows every kind of output that an agent has.",
            ["demo"],
            ["How many words are in this sentence?"],
        )
    ],
    input_modes=["*/*"],
    output_modes=["text/plain", "text/markdown"],
    capabilities={"tools": {"supported": True}},
)
async def assistant(ctx: RunContext) -> AsyncIterator[Emission]:
    """Count the message's words, in every way that an agent can speak."""
    yield Thinking("The user says something. ")
    await asyncio.sleep(_PAUSE)
    yield Thinking("Counting its words ")
    await asyncio.sleep(_PAUSE)
    yield Thinking("should be of help.", end=True)
    call = await ctx.tool_call("count_words", {"text": ctx.prompt})
    words = len(ctx.prompt.split())
    await asyncio.sleep(_PAUSE)
    yield ToolResult(call, {"words": words})
    for piece in ("You said ", f"{words} ", "word" if words == 1 else "words", ": ", ctx.prompt):
        yield piece
        await asyncio.sleep(_PAUSE)
    summary = f"# Your message\n\n{ctx.prompt}\n\nWords: {words}\n"
    yield File("summary.md", summary.encode(), "text/markdown")


@agent(
    name="counter",
    description=f"Counts to N: `N [delay_ms]`, N from 1 to {MAX_COUNT}.",
    skills=[
        Skill("count", "Count", "Streams the numbers from 1 to N.", ["demo"], ["10", "10 500"])
    ],
)
async def counter(ctx: RunContext) -> AsyncIterator[Emission]:
    """Stream `1 `, `2 `, … `N `, `delay_ms` milliseconds apart."""
    order = _read_order(ctx.prompt)
    if order is None:
        yield Reject(
            f"the message must be `N [delay_ms]`: N from 1 to {MAX_COUNT},"
            f" delay_ms from 0 to {MAX_DELAY}"
        )
        return
    count, delay = order
    for number in range(1, count + 1):
        if delay and number > 1:
            await asyncio.sleep(delay)
        yield f"{number} "


def _read_order(prompt: str) -> tuple[int, float] | None:
    """Return the count and the delay in seconds, or None if the prompt is malformed."""
    numbers = prompt.split()
    if len(numbers) not in (1, 2) or not all(n.isascii() and n.isdecimal() for n in numbers):
        return None
    count, delay = int(numbers[0][:9]), int(numbers[1][:9]) if len(numbers) > 1 else 0
    if not (1 <= count <= MAX_COUNT and delay <= MAX_DELAY):
        return None
    return count, delay / 1000


agents = Agents([echo, assistant, counter])
