"""Agentic generative UI: a list of steps as shared state, updated with a patch for each step."""

import asyncio
from collections.abc import AsyncIterator

from headrace import Card, Emission, RunContext, State, StateDelta, Step, agent
from headrace_dojo.pacing import PAUSE, paced

_STEPS = ("Understand", "Plan", "Build", "Test", "Tidy up")


@agent(
    name="agentic_generative_ui",
    description="Shows its steps, and ticks them off.",
    card=Card(capabilities={"state": {"snapshots": True, "deltas": True}}),
)
async def agentic_generative_ui(ctx: RunContext) -> AsyncIterator[Emission]:
    """Work through five steps."""
    steps = [{"description": f"{step}: {ctx.prompt}", "status": "pending"} for step in _STEPS]
    yield State({"steps": steps})
    for number, name in enumerate(_STEPS):
        yield Step(name)
        await asyncio.sleep(PAUSE)
        path = f"/steps/{number}/status"
        yield StateDelta([{"op": "replace", "path": path, "value": "completed"}])
        yield Step(name, finished=True)
    async for word in paced("All steps are done."):
        yield word
