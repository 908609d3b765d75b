"""Agents that delegate to each other, for workers that tests kill.

Each run of `child` and `ignores_cancel` appends a line to the file that `RUNS` names, so that a
test can count the attempts at each message.
"""

import asyncio
import os
from pathlib import Path

from headrace import Agents, Retry, RunContext, agent
from tests.support.gates import opened

RUNS = "HEADRACE_RECORDED_RUNS"


def _note(ctx: RunContext) -> None:
    with Path(os.environ[RUNS]).open("a") as runs:
        runs.write(f"{ctx.task} {ctx.prompt} {ctx.attempt}\n")


@agent(retry=Retry(attempts=50))
async def child(ctx: RunContext) -> None:
    """Takes `name until`: writes the name, then again after `until` seconds, or once it exists."""
    _note(ctx)
    name, until = ctx.prompt.split()
    await ctx.emit(f"{name} begins, ")
    if until.isdecimal():
        await asyncio.sleep(int(until))
    else:
        await opened(until)
    await ctx.emit(f"{name} ends.")


@agent(retry=Retry(attempts=50))
async def ignores_cancel(ctx: RunContext) -> None:
    """Waits until the file that its message names exists, even if it is cancelled."""
    _note(ctx)
    await ctx.emit("begun")
    try:
        await asyncio.Event().wait()
    finally:
        await opened(ctx.prompt)


@agent(retry=Retry(attempts=50))
async def two_children(ctx: RunContext) -> None:
    """Delegates the first paragraph to `child` and the second one to `ignores_cancel`."""
    ours, theirs = ctx.prompt.split("\n\n")
    await asyncio.gather(ctx.delegate("child", ours), ctx.delegate("ignores-cancel", theirs))


@agent(retry=Retry(attempts=50))
async def fails_once(ctx: RunContext) -> None:
    """Delegates its first line; the first attempt fails once the file of the second line exists."""
    line, gate = ctx.prompt.splitlines()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ctx.delegate("child", line))
        if ctx.attempt == 1:
            await opened(gate)
            raise RuntimeError
    await ctx.emit(asking.result().text)


@agent(retry=Retry(attempts=50))
async def fan_out(ctx: RunContext) -> None:
    """Delegates each line at the same time; the second attempt in reverse order."""
    lines = ctx.prompt.splitlines()
    results = await asyncio.gather(
        *(ctx.delegate("child", line) for line in (lines[::-1] if ctx.attempt > 1 else lines))
    )
    await ctx.emit(" ".join(sorted(result.text for result in results)))


@agent(retry=Retry(attempts=50))
async def nondeterministic(ctx: RunContext) -> None:
    """Delegates its first line; the second attempt delegates the last one instead."""
    lines = ctx.prompt.splitlines()
    result = await ctx.delegate("child", lines[-1] if ctx.attempt > 1 else lines[0])
    await ctx.emit(result.text)


@agent(retry=Retry(attempts=50))
async def nested_fan_out(ctx: RunContext) -> None:
    """Delegates each paragraph to `fan_out`."""
    results = await asyncio.gather(
        *(ctx.delegate("fan-out", paragraph) for paragraph in ctx.prompt.split("\n\n"))
    )
    await ctx.emit("\n".join(result.text for result in results))


parents = Agents([fan_out, nondeterministic, two_children, fails_once])
children = Agents([child, ignores_cancel])
all_agents = Agents([nested_fan_out, fan_out, nondeterministic, child])
