"""Tool-based generative UI: the user interface draws the arguments of a tool call."""

from collections.abc import AsyncIterator

from headrace import Card, Emission, InputRequired, RunContext, ToolResult, agent
from headrace_dojo.frontend import has_tool, results
from headrace_dojo.pacing import paced

TOOL = "generate_haiku"


@agent(
    name="tool_based_generative_ui",
    description="Writes a haiku, drawn by your page.",
    card=Card(capabilities={"tools": {"supported": True, "clientProvided": True}}),
)
async def tool_based_generative_ui(ctx: RunContext) -> AsyncIterator[Emission]:
    """Write one haiku about anything."""
    if results(ctx):
        async for word in paced("I hope you like it."):
            yield word
        return
    haiku = {
        "japanese": ["水の音", "止まることなく", "流れゆく"],
        "english": ["The sound of water", f"speaks of {ctx.prompt or 'nothing'}", "and flows on"],
        "image_name": "Bonsai_Tree_Potted_Japanese_Art_Green_Foliage.jpeg",
        "gradient": "linear-gradient(135deg, #667eea 0%, #764ba2 100%)",
    }
    call = await ctx.tool_call(TOOL, haiku)
    if has_tool(ctx, TOOL):
        yield InputRequired(tool_calls=[call])
    else:
        await ctx.emit(ToolResult(call, "There is nobody to draw it."))
