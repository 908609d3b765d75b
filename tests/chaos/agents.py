"""What the workers serve: agents whose whole answer follows from the message.

The message's text is a count, a pause in milliseconds and, so that each answer can be told from
others, a mark that the answer begins with.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable

from headrace import Agents, InputRequired, RunContext, agent
from headrace.model.parts import text_of

STEADY = 1000
"""Attempts: a run that is hit again and again is still no failure."""

WHIMS = "whim"
"""Begins the keys of what a head wants no more when it is done."""

WHIM = "1000 1000"
_STRIDE = 7
_BLOCKS = 40
"""How many pauses an agent that blocks its worker does so for at a time: longer than a gateway
waits for a holder."""


def answer_to(agent: str, text: str) -> str:
    """Return what an agent says to `text`, in all."""
    if (below := asked_by(agent, text)) is not None:
        return _together(answer_to(*question) for question in below)
    count, _, mark = _read(text)
    return mark + "".join(f"{n} " for n in range(1, count + 1))


def asked_by(agent: str, text: str) -> list[tuple[str, str]] | None:
    """Return whom an agent asks what when it is asked `text`; None: it asks nobody."""
    count, pause, *_ = text.split()
    further = f"{int(count) + 1} {pause}"
    match agent:
        case "manager":
            # One question twice: two children.
            return [("head", text), ("head", further), ("head", text)]
        case "head":
            return [("plain", text), ("plain", further)]
    return None


def mark_of(text: str) -> str:
    """Return what the answer to `text` begins with; empty: nothing of its own."""
    return _read(text)[2]


def _read(text: str) -> tuple[int, float, str]:
    """Return the count, the pause in seconds, and the mark."""
    count, pause, *mark = text.split()
    return int(count), int(pause) / 1000, f"<{mark[0]}> " if mark else ""


def _together(answers: Iterable[str]) -> str:
    return "(" + " ".join(sorted(answers)) + ")"


@agent(max_attempts=STEADY)
async def plain(ctx: RunContext) -> AsyncIterator[str]:
    """Counts, and begins again in each attempt."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause)


@agent(max_attempts=STEADY)
async def careful(ctx: RunContext) -> None:
    """Counts, and goes on where its last attempt has left a checkpoint."""
    count, pause, mark = _read(ctx.prompt)
    if ctx.checkpoint_data is None:
        await ctx.text(mark)
    for number in range((ctx.checkpoint_data or 0) + 1, count + 1):
        await ctx.text(f"{number} ")
        if number % _STRIDE == 0:
            await ctx.checkpoint(number)
        await asyncio.sleep(pause)


@agent(max_attempts=STEADY)
async def blocking(ctx: RunContext) -> AsyncIterator[str]:
    """Counts, and lets nothing else happen in its process for a while."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(0)
        if number == 1:
            time.sleep(pause * _BLOCKS)  # noqa: ASYNC251  # what this agent is for


@agent(max_attempts=STEADY, follow_ups="steer")
async def steered(ctx: RunContext) -> AsyncIterator[str]:
    """Counts, and says the mark of each message that comes meanwhile."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause)
        while ctx.inbox:
            yield _read(text_of((await anext(ctx.inbox))["parts"]))[2]


@agent(max_attempts=STEADY)
async def asking(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Asks what to count to."""
    if ctx.run == 1:
        yield InputRequired("How far?")
        return
    async for piece in plain.streaming(ctx):
        yield str(piece)


@agent(max_attempts=STEADY)
async def manager(ctx: RunContext) -> str:
    """Asks three heads."""
    return await _ask("manager", ctx)


@agent(max_attempts=STEADY)
async def head(ctx: RunContext) -> str:
    """Asks two who count, and one of whom it wants nothing in the end, another in each attempt."""
    async with ctx.delegate_stream("plain", WHIM, key=f"{WHIMS} {ctx.attempt}", relay=False):
        return await _ask("head", ctx)


async def _ask(agent: str, ctx: RunContext) -> str:
    """Ask all at once, in another order in each attempt."""
    questions = asked_by(agent, ctx.prompt) or []
    random.Random(ctx.attempt).shuffle(questions)
    results = await asyncio.gather(*(ctx.delegate(who, what) for who, what in questions))
    return _together(result.text for result in results)


agents = Agents([plain, careful, blocking, steered, asking, manager, head])
