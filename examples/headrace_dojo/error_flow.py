"""Error flow: what a user interface shows when an agent fails or rejects a task."""

from collections.abc import AsyncIterator

from headrace import Emission, Reject, RunContext, Step, agent
from headrace_dojo.pacing import paced


class MadeUp(RuntimeError):
    """The error with which this agent fails on purpose."""


@agent(name="error_flow", description="Fails amid its answer; `reject` is refused at once.")
async def error_flow(ctx: RunContext) -> AsyncIterator[Emission]:
    """Start an answer, then fail."""
    if ctx.prompt.strip().lower() == "reject":
        yield Reject("you asked for it")
        return
    yield Step("answering")
    async for word in paced("This will not end well"):
        yield word
    raise MadeUp(ctx.prompt)
