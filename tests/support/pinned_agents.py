"""An agent of which two versions run side by side."""

from collections.abc import AsyncIterator

from headrace import Agent, Agents, InputRequired, RunContext, agent


def _booth(version: str) -> Agent:
    @agent(name="booth", version=version, pinned=True)
    async def booth(ctx: RunContext) -> AsyncIterator[InputRequired]:
        """Ask, so that the task stays open."""
        yield InputRequired(f"{ctx.prompt}?")

    return booth


first = Agents([_booth("1")])
second = Agents([_booth("2")])
