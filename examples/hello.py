"""A minimal agent. From this folder: ``headrace dev --agents hello:hello``."""

from collections.abc import AsyncIterator

from headrace import Emission, RunContext, Thinking, agent


@agent(description="Greets the user by name.")
async def hello(ctx: RunContext) -> AsyncIterator[Emission]:
    """Greet the user."""
    yield Thinking(f"This must be {ctx.prompt}.", end=True)
    yield "Hello, "
    yield f"{ctx.prompt}!"
