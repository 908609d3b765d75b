"""What the workers serve: agents whose whole answer follows from the message.

The message's text is a count and a pause in milliseconds.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable

from headrace_worker import Agents, InputRequired, RunContext, agent

STEADY = 1000
"""Attempts: a leg that is hit again and again is still no failure."""

WHIMS = "whim"
"""Begins the keys of what a head wants no more when it is done."""

WHIM = "1000 1000"
_STRIDE = 7


def answer_to(agent: str, text: str) -> str:
    """Return what an agent says to `text`, in all."""
    if (below := asked_by(agent, text)) is not None:
        return _together(answer_to(*question) for question in below)
    return "".join(f"{n} " for n in range(1, int(text.split(maxsplit=1)[0]) + 1))


def asked_by(agent: str, text: str) -> list[tuple[str, str]] | None:
    """Return whom an agent asks what when it is asked `text`; None: it asks nobody."""
    count, pause = text.split()
    further = f"{int(count) + 1} {pause}"
    match agent:
        case "manager":
            # One question twice: two children.
            return [("head", text), ("head", further), ("head", text)]
        case "head":
            return [("plain", text), ("plain", further)]
    return None


def _together(answers: Iterable[str]) -> str:
    return "(" + " ".join(sorted(answers)) + ")"


@agent(max_attempts=STEADY)
async def plain(ctx: RunContext) -> AsyncIterator[str]:
    """Counts, and begins again in each attempt."""
    count, pause = map(int, ctx.prompt.split())
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause / 1000)


@agent(max_attempts=STEADY)
async def careful(ctx: RunContext) -> None:
    """Counts, and goes on where its last attempt has left a checkpoint."""
    count, pause = map(int, ctx.prompt.split())
    for number in range((ctx.checkpoint_data or 0) + 1, count + 1):
        await ctx.text(f"{number} ")
        if number % _STRIDE == 0:
            await ctx.checkpoint(number)
        await asyncio.sleep(pause / 1000)


@agent(max_attempts=STEADY)
async def asking(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Asks what to count to."""
    if ctx.leg == 1:
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


agents = Agents([plain, careful, asking, manager, head])
