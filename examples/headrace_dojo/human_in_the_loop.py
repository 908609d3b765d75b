"""Human in the loop: a plan whose steps the user selects before they are executed."""

import asyncio
from collections.abc import AsyncIterator

import orjson

from headrace import Card, Emission, InputRequired, RunContext, ToolArguments, agent
from headrace.model.parts import ToolResultPart
from headrace_dojo.frontend import results
from headrace_dojo.pacing import PAUSE, paced

TOOL = "generate_task_steps"
_VERBS = ("Think about", "Prepare", "Begin", "Go on with", "Finish")


@agent(
    name="human_in_the_loop",
    description="Plans a task in steps; you say which of them.",
    card=Card(
        capabilities={
            "tools": {"supported": True, "clientProvided": True},
            "humanInTheLoop": {"supported": True, "approvals": True},
        }
    ),
)
async def human_in_the_loop(ctx: RunContext) -> AsyncIterator[Emission]:
    """Let the user select steps, then execute them."""
    if answered := results(ctx):
        async for word in paced(_report(answered[-1])):
            yield word
        return
    steps = [{"description": f"{verb} {ctx.prompt}", "status": "enabled"} for verb in _VERBS]
    call = ctx.new_id("call")
    written = orjson.dumps({"steps": steps}).decode()
    for start in range(0, len(written), 20):
        yield ToolArguments(call, written[start : start + 20], TOOL, end=start + 20 >= len(written))
        await asyncio.sleep(PAUSE)
    yield InputRequired(tool_calls=[call])


def _report(answered: ToolResultPart) -> str:
    """Return the reply to the user's answer: ``{"accepted", "steps"}``, or text."""
    try:
        answer = orjson.loads(answered.content)
        chosen = [step["description"] for step in answer["steps"] if step["status"] == "enabled"]
    except (KeyError, TypeError, ValueError):
        return f"You said: {answered.content}"
    if not answer.get("accepted", True):
        return "Then nothing is done."
    return "Done: " + "; ".join(chosen)
