"""Agents that delegate to other test agents, for workers that tests kill."""

from collections.abc import AsyncIterator

from headrace import Agents, Retry, RunContext, agent


@agent(retry=Retry(attempts=10))
async def parent(run: RunContext) -> AsyncIterator[str]:
    """Passes its message on to `gated`, and what that says back."""
    yield "Delegating. "
    yield (await run.delegate("gated", run.prompt)).text


@agent(retry=Retry(attempts=10))
async def grandparent(run: RunContext) -> AsyncIterator[str]:
    """Passes its message on to `parent`, and what that says back; tells in which attempt."""
    yield f"Attempt {run.attempt}: "
    yield (await run.delegate("parent", run.prompt)).text


parents = Agents([parent])
grandparents = Agents([grandparent])
