"""Background activity: progress that is shown outside the conversation."""

import asyncio
from collections.abc import AsyncIterator

from headrace import ActivityDelta, Card, Emission, File, RunContext, agent
from headrace_dojo.pacing import PAUSE, paced

_PARTS = 4


@agent(
    name="background_activity",
    description="Works in the background and shows how far it is.",
    card=Card(output_modes=["text/plain", "text/csv"]),
)
async def background_activity(ctx: RunContext) -> AsyncIterator[Emission]:
    """Show progress as an activity, then hand over a file."""
    progress = await ctx.activity("PROGRESS", {"title": ctx.prompt, "percent": 0, "done": []})
    for part in range(1, _PARTS + 1):
        await asyncio.sleep(PAUSE)
        yield ActivityDelta(
            progress,
            [
                {"op": "replace", "path": "/percent", "value": 100 * part // _PARTS},
                {"op": "add", "path": "/done/-", "value": f"part {part}"},
            ],
        )
    yield File("report.csv", b"part,ok\n1,yes\n2,yes\n3,yes\n4,yes\n", "text/csv")
    async for word in paced("The report is ready."):
        yield word
