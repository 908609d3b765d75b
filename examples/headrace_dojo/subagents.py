"""Subagents: other agents do parts of the work, and each is shown as a subagent run."""

from collections.abc import AsyncIterator

from headrace import Card, Emission, RunContext, agent
from headrace_dojo.pacing import paced


@agent(
    name="subagents",
    description="Plans a trip with the help of other agents.",
    card=Card(
        capabilities={
            "multiAgent": {
                "supported": True,
                "delegation": True,
                "subagents": [{"name": "backend_tool_rendering"}, {"name": "reasoning"}],
            }
        }
    ),
)
async def subagents(ctx: RunContext) -> AsyncIterator[Emission]:
    """Delegate to one agent for the weather and to another for a thought, and sum up."""
    place = ctx.prompt.strip() or "Nowhere"
    weather = await ctx.delegate("backend_tool_rendering", f"the weather in {place}?")
    thought = await ctx.delegate("reasoning", f"what to pack for {place}")
    async for word in paced(f"{weather.text} {thought.text} Have a good trip."):
        yield word
