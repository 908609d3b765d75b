"""Demo agents without a model, to try the fleet and to test it."""

import asyncio
from collections.abc import AsyncIterator

from headrace.sdk.agent import Agents, agent
from headrace.sdk.card import Card, Skill
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Emission, File, Reject, Thinking, ToolResult
from headrace.sdk.policy import Retry

MAX_COUNT = 1_000_000
MAX_DELAY = 60_000
"""Milliseconds."""

_KILLED = 1000
"""Attempts of an agent that people kill to see that it continues."""

_PAUSE = 0.02
"""Seconds between the assistant's words, about the pace of a model."""


@agent(
    name="echo",
    description="Answers with the message's text.",
    card=Card(skills=[Skill("echo", "Echo", "Repeats your message.", ["demo"], ["hello"])]),
)
async def echo(ctx: RunContext) -> AsyncIterator[Emission]:
    """Answer with the message's text."""
    yield ctx.prompt


@agent(
    name="assistant",
    description="Thinks, calls a tool, answers in a stream and hands over a file; has no model.",
    card=Card(
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
    ),
)
async def assistant(ctx: RunContext) -> AsyncIterator[Emission]:
    """Count the message's words, with every kind of output."""
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
    card=Card(
        skills=[
            Skill("count", "Count", "Streams the numbers from 1 to N.", ["demo"], ["10", "10 500"])
        ]
    ),
    retry=Retry(attempts=_KILLED),
)
async def counter(ctx: RunContext) -> AsyncIterator[Emission]:
    """Stream `1 `, `2 `, … `N `, `delay_ms` milliseconds apart.

    With `checkpoint_every`, an attempt after the first continues after the last checkpoint.
    """
    order = _read_order(ctx.prompt)
    if order is None:
        yield Reject(
            f"the message must be `N [delay_ms] [checkpoint_every]`: N from 1 to {MAX_COUNT},"
            f" delay_ms from 0 to {MAX_DELAY}, checkpoint_every from 0"
        )
        return
    count, delay, every = order
    for number in range((ctx.checkpoint_data or 0) + 1, count + 1):
        if delay and number > 1:
            await asyncio.sleep(delay)
        yield f"{number} "
        if every and number % every == 0:
            await ctx.checkpoint(number)


def _read_order(prompt: str) -> tuple[int, float, int] | None:
    """Return the count, the delay in seconds and the numbers from one checkpoint to the next.

    These are 0 without checkpoints. None: the prompt is malformed.
    """
    words = prompt.split()
    if len(words) not in (1, 2, 3) or not all(n.isascii() and n.isdecimal() for n in words):
        return None
    count, delay, every = (*(int(word[:9]) for word in words), 0, 0)[:3]
    if not (1 <= count <= MAX_COUNT and delay <= MAX_DELAY):
        return None
    return count, delay / 1000, every


agents = Agents([echo, assistant, counter])
