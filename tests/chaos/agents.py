"""Agents for chaos runs: the message determines the whole answer.

The message's text is a count, a pause in milliseconds and an optional mark, which the answer begins
with, so that each answer can be identified.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable

from headrace import Agents, InputRequired, Retry, RunContext, agent
from headrace.model.parts import text_of
from tests.chaos.awaited_calls import WAITS, until_called
from tests.chaos.step_journal import STEPS, did, got

STEADY = 1000
"""Attempts per run: a run that is interrupted often must not fail."""

DROPPED = "dropped"
"""Prefix of the keys of child tasks that a head does not wait for."""

DROPPED_PROMPT = "1000 1000"
ONLY_STEPPING = ("stepping", "branching")
STEPPING = (*ONLY_STEPPING, "waiting")
"""Agents that do steps themselves."""

_STRIDE = 7
_SAVED = 4
_BLOCKS = 40
"""Pauses for which `blocking` blocks its worker at a time: longer than a gateway waits for a
holder."""


def answer_to(agent: str, text: str) -> str:
    """Return the whole answer of an agent to `text`."""
    if (below := delegated_by(agent, text)) is not None:
        return _joined(answer_to(*question) for question in below)
    if agent in STEPPING:
        return f"{STEPS} steps"
    count, _, mark = _read(text)
    return mark + "".join(f"{n} " for n in range(1, count + 1))


def delegated_by(agent: str, text: str) -> list[tuple[str, str]] | None:
    """Return the agents and prompts that an agent delegates for `text`; None: it does not."""
    count, pause, *_ = text.split()
    further = f"{int(count) + 1} {pause}"
    match agent:
        case "manager":
            # The same prompt twice: two children.
            return [("head", text), ("head", further), ("head", text)]
        case "foreman":
            return [(stepper, text) for stepper in STEPPING]
        case "head":
            return [("plain", text), ("plain", further)]
    return None


def mark_of(text: str) -> str:
    """Return the mark that the answer to `text` begins with; empty if it has none."""
    return _read(text)[2]


def _read(text: str) -> tuple[int, float, str]:
    """Return the count, the pause in seconds, and the mark."""
    count, pause, *mark = text.split()
    return int(count), int(pause) / 1000, f"<{mark[0]}> " if mark else ""


def _joined(answers: Iterable[str]) -> str:
    return "(" + " ".join(sorted(answers)) + ")"


@agent(retry=Retry(attempts=STEADY))
async def plain(ctx: RunContext) -> AsyncIterator[str]:
    """Count, from 1 in each attempt."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause)


@agent(retry=Retry(attempts=STEADY))
async def careful(ctx: RunContext) -> None:
    """Count, from the checkpoint of the last attempt."""
    count, pause, mark = _read(ctx.prompt)
    if ctx.checkpoint_data is None:
        await ctx.emit(mark)
    for number in range((ctx.checkpoint_data or 0) + 1, count + 1):
        await ctx.emit(f"{number} ")
        if number % _STRIDE == 0:
            await ctx.checkpoint(number)
        await asyncio.sleep(pause)


@agent(retry=Retry(attempts=STEADY))
async def blocking(ctx: RunContext) -> AsyncIterator[str]:
    """Count, and block the event loop for a while."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(0)
        if number == 1:
            time.sleep(pause * _BLOCKS)  # noqa: ASYNC251  # what this agent is for


@agent(retry=Retry(attempts=STEADY), follow_ups="steer")
async def steered(ctx: RunContext) -> AsyncIterator[str]:
    """Count, and emit the mark of each message that arrives meanwhile."""
    count, pause, mark = _read(ctx.prompt)
    yield mark
    for number in range(1, count + 1):
        yield f"{number} "
        await asyncio.sleep(pause)
        while ctx.inbox:
            yield _read(text_of((await anext(ctx.inbox))["parts"]))[2]


@agent(retry=Retry(attempts=STEADY))
async def asking(ctx: RunContext) -> AsyncIterator[str | InputRequired]:
    """Ask how far to count, then count."""
    if ctx.run == 1:
        yield InputRequired("How far?")
        return
    async for piece in plain.streaming(ctx):
        yield str(piece)


@agent(retry=Retry(attempts=STEADY))
async def manager(ctx: RunContext) -> str:
    """Delegate to three heads."""
    return await _ask("manager", ctx)


@agent(retry=Retry(attempts=STEADY))
async def head(ctx: RunContext) -> str:
    """Delegate to two counters, and to a third one, new in each attempt, without waiting."""
    async with ctx.delegate_stream(
        "plain", DROPPED_PROMPT, key=f"{DROPPED} {ctx.attempt}", relay=False
    ):
        return await _ask("head", ctx)


@agent(retry=Retry(attempts=STEADY))
async def stepping(ctx: RunContext) -> str:
    """Do steps one by one, and save after some of them."""
    for number in range((ctx.checkpoint_data or 0) + 1, STEPS + 1):
        await _step(ctx, number)
        if number % _SAVED == 0:
            await ctx.checkpoint(number)
    return f"{STEPS} steps"


@agent(retry=Retry(attempts=STEADY))
async def branching(ctx: RunContext) -> str:
    """Do all steps at once, begun in another order in each attempt."""
    numbers = [*range(1, STEPS + 1)]
    random.Random(ctx.attempt).shuffle(numbers)
    await asyncio.gather(*(_step(ctx, number, key=str(number)) for number in numbers))
    return f"{STEPS} steps"


@agent(retry=Retry(attempts=STEADY))
async def waiting(ctx: RunContext) -> str:
    """Do steps one by one, and wait before some of them."""
    for number in range(1, STEPS + 1):
        if number in WAITS:
            await until_called(ctx, number)
        await _step(ctx, number)
    return f"{STEPS} steps"


@agent(retry=Retry(attempts=STEADY))
async def foreman(ctx: RunContext) -> str:
    """Delegate to agents that do steps."""
    return await _ask("foreman", ctx)


async def _step(ctx: RunContext, number: int, key: str | None = None) -> None:
    def work(*, idempotency_key: str) -> str:
        time.sleep(pause)
        return did(ctx.task, number, idempotency_key)

    _, pause, _ = _read(ctx.prompt)
    got(ctx.task, number, await ctx.step("work", work, key=key))


async def _ask(agent: str, ctx: RunContext) -> str:
    """Delegate all prompts at once, in another order in each attempt."""
    questions = delegated_by(agent, ctx.prompt) or []
    random.Random(ctx.attempt).shuffle(questions)
    results = await asyncio.gather(*(ctx.delegate(who, what) for who, what in questions))
    return _joined(result.text for result in results)


agents = Agents(
    [
        *(plain, careful, blocking, steered, asking, manager, head),
        *(stepping, branching, waiting, foreman),
    ]
)
