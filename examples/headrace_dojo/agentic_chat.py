"""Agentic chat: text, a tool of the user interface, and the context that it sends."""

import re
from collections.abc import AsyncIterator

from headrace import Card, Emission, InputRequired, RunContext, agent
from headrace_dojo.frontend import has_tool, results
from headrace_dojo.pacing import paced

TOOL = "change_background"
_COLOURS = re.compile(
    r"\b(red|orange|yellow|green|blue|purple|pink|white|black|gr[ae]y)\b", re.IGNORECASE
)


@agent(
    name="agentic_chat",
    description="Chats, and paints the background of your page.",
    card=Card(capabilities={"tools": {"supported": True, "clientProvided": True}}),
)
async def agentic_chat(ctx: RunContext) -> AsyncIterator[Emission]:
    """Answer; for a background, call the user interface's tool first."""
    if answered := results(ctx):
        result = answered[-1].error or answered[-1].content
        async for word in paced(f"The background: {result}"):
            yield word
        return
    if "background" in ctx.prompt.lower() and has_tool(ctx, TOOL):
        async for word in paced("Let me paint. "):
            yield word
        found = _COLOURS.search(ctx.prompt)
        call = await ctx.tool_call(TOOL, {"background": found[0].lower() if found else "pink"})
        yield InputRequired(tool_calls=[call])
        return
    async for word in paced(f"You said: {ctx.prompt}"):
        yield word
    for known in ctx.agui.get("context") or []:
        async for word in paced(f"\nI know of {known['description']}: {known['value']}"):
            yield word
