"""Agents that delegate to each other, for workers that tests kill.

Each run of `helper` writes a line into the file that `RUNS` names, so that a test sees how
often which question was worked on.
"""

import asyncio
import os
from pathlib import Path

from headrace import Agents, RunContext, agent
from tests.support.gates import opened

RUNS = "HEADRACE_FAMILY_RUNS"


def _note(ctx: RunContext) -> None:
    with Path(os.environ[RUNS]).open("a") as runs:
        runs.write(f"{ctx.task} {ctx.prompt} {ctx.attempt}\n")


@agent(max_attempts=50)
async def helper(ctx: RunContext) -> None:
    """Says `name until`: its name, and again after so many seconds, or once that file is there."""
    _note(ctx)
    name, until = ctx.prompt.split()
    await ctx.text(f"{name} begins, ")
    if until.isdecimal():
        await asyncio.sleep(int(until))
    else:
        await opened(until)
    await ctx.text(f"{name} ends.")


@agent(max_attempts=50)
async def stubborn(ctx: RunContext) -> None:
    """Does not end before the file is there that its message names, even if it is cancelled."""
    _note(ctx)
    await ctx.text("begun")
    try:
        await asyncio.Event().wait()
    finally:
        await opened(ctx.prompt)


@agent(max_attempts=50)
async def principal(ctx: RunContext) -> None:
    """Asks a helper, and somebody stubborn, of which each paragraph of its message is for one."""
    ours, theirs = ctx.prompt.split("\n\n")
    await asyncio.gather(ctx.delegate("helper", ours), ctx.delegate("stubborn", theirs))


@agent(max_attempts=50)
async def quitter(ctx: RunContext) -> None:
    """Asks a helper its first line; its first attempt fails once the second, a file, is there."""
    line, gate = ctx.prompt.splitlines()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ctx.delegate("helper", line))
        if ctx.attempt == 1:
            await opened(gate)
            raise RuntimeError
    await ctx.text(asking.result().text)


@agent(max_attempts=50)
async def head(ctx: RunContext) -> None:
    """Asks a helper for each line of its message, all at once; the second attempt backwards."""
    lines = ctx.prompt.splitlines()
    results = await asyncio.gather(
        *(ctx.delegate("helper", line) for line in (lines[::-1] if ctx.attempt > 1 else lines))
    )
    await ctx.text(" ".join(sorted(result.text for result in results)))


@agent(max_attempts=50)
async def forgetful(ctx: RunContext) -> None:
    """Asks for the first line of its message; its second attempt for the last one instead."""
    lines = ctx.prompt.splitlines()
    result = await ctx.delegate("helper", lines[-1] if ctx.attempt > 1 else lines[0])
    await ctx.text(result.text)


@agent(max_attempts=50)
async def manager(ctx: RunContext) -> None:
    """Asks a head for each paragraph of its message."""
    results = await asyncio.gather(
        *(ctx.delegate("head", paragraph) for paragraph in ctx.prompt.split("\n\n"))
    )
    await ctx.text("\n".join(result.text for result in results))


heads = Agents([head, forgetful, principal, quitter])
helpers = Agents([helper, stubborn])
everybody = Agents([manager, head, forgetful, helper])
