"""Running an agent's function: everything that it yields or returns is said."""

from contextlib import aclosing

from headrace.sdk.agent import Agent
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import FILES
from headrace.sdk.errors import AgentExited


async def drive(agent: Agent, ctx: RunContext) -> None:
    """Run `agent` until its function has ended.

    Raises:
        MalformedOutput: it said what can't be said.
        AgentExited: it tried to end the process.
        Exception: whatever else it raised.
    """
    try:
        if agent.streams:
            await _stream(agent, ctx)
        else:
            await _call(agent, ctx)
    except SystemExit as exit_:
        raise AgentExited(f"the agent called sys.exit({exit_.code!r})") from exit_


async def _stream(agent: Agent, ctx: RunContext) -> None:
    runtime = runtime_of(ctx)
    emit, room = runtime.emit, runtime.room
    async with aclosing(agent.streaming(ctx)) as stream:
        async for said in stream:
            if type(said) in FILES:
                said = await runtime.offloaded(said)  # noqa: PLW2901  # the same, as the log takes it
            if not emit(said):
                await room()


async def _call(agent: Agent, ctx: RunContext) -> None:
    said = await agent.returning(ctx)
    if said is not None:
        await ctx.emit(said)
