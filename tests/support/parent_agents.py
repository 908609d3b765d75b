"""Agents that delegate to other test agents, for workers that tests kill."""

from collections.abc import AsyncIterator

from headrace import Agents, RunContext, agent


@agent(max_attempts=10)
async def chief(run: RunContext) -> AsyncIterator[str]:
    """Passes its message on to `gated`, and what that says back."""
    yield "I ask. "
    yield (await run.delegate("gated", run.prompt)).text


@agent(max_attempts=10)
async def director(run: RunContext) -> AsyncIterator[str]:
    """Passes its message on to `chief`, and what that says back; tells in which attempt."""
    yield f"Attempt {run.attempt}: "
    yield (await run.delegate("chief", run.prompt)).text


chiefs = Agents([chief])
directors = Agents([director])
