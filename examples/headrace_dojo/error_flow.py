"""Error flow: what a user interface sees when an agent fails, or will not begin."""

from collections.abc import AsyncIterator

from headrace import Emission, Reject, RunContext, Step, agent
from headrace_dojo.pacing import paced


class MadeUp(RuntimeError):
    """Nothing is wrong; this agent fails for show."""


@agent(name="error_flow", description="Fails amid its answer; `reject` is refused at once.")
async def error_flow(ctx: RunContext) -> AsyncIterator[Emission]:
    """Begin to answer, and fail."""
    if ctx.prompt.strip().lower() == "reject":
        yield Reject("you asked for it")
        return
    yield Step("answering")
    async for word in paced("This will not end well"):
        yield word
    raise MadeUp(ctx.prompt)
