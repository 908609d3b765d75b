"""Backend tool rendering: the agent calls its own tool, and the user interface shows the result."""

from collections.abc import AsyncIterator

from headrace import Card, Emission, RunContext, ToolResult, Usage, agent
from headrace.model.events import Json
from headrace_dojo.pacing import paced


@agent(
    name="backend_tool_rendering",
    description="Tells the weather of any place, made up.",
    card=Card(
        capabilities={
            "tools": {
                "supported": True,
                "items": [{"name": "get_weather", "description": "The weather of a place"}],
            }
        }
    ),
)
async def backend_tool_rendering(ctx: RunContext) -> AsyncIterator[Emission]:
    """Get the weather and describe it."""
    place = ctx.prompt.rstrip("?!. ").rpartition(" in ")[2] or "Nowhere"
    call = await ctx.tool_call("get_weather", {"location": place})
    weather = _weather(place)
    await ctx.emit(ToolResult(call, weather))
    report = f"It is {weather['temperature']} °C and {weather['conditions']} in {place}."
    async for word in paced(report):
        yield word
    yield Usage("weather-1", "headrace", len(ctx.prompt.split()), len(report.split()))


def _weather(place: str) -> Json:
    """Return a place's weather, always the same for the same name."""
    seed = sum(map(ord, place))
    return {
        "location": place,
        "temperature": seed % 35,
        "humidity": seed % 60 + 30,
        "wind_speed": seed % 25,
        "feels_like": seed % 35 - 2,
        "conditions": ("sunny", "cloudy", "raining", "windy")[seed % 4],
    }
