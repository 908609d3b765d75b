"""The durations of OpenTelemetry's GenAI conventions, by agent, tool and error."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from headrace import Emission, RunContext, ToolCall, ToolResult, agent
from headrace.testing import TestFleet
from headrace_worker import observed_tool_calls

_AGENT = "gen_ai_invoke_agent_duration_seconds"
_TOOL = "gen_ai_execute_tool_duration_seconds"


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the tools that other tests of the process have called."""
    monkeypatch.setattr(observed_tool_calls, "_names", set[str]())
    observed_tool_calls._series.cache_clear()


def counted(metric: str) -> dict[tuple[str, ...], float]:
    """Return how often the histogram was observed, by the values of its labels."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == f"{metric}_count"
    }


@agent(name="measured-caller")
async def caller(_: RunContext) -> AsyncIterator[Emission]:
    yield ToolCall("weather", {"city": "Bern"}, id="one")
    yield ToolCall("weather", {"city": "Rome"}, id="two")
    yield ToolCall("forms", {}, id="asked")
    yield ToolResult("one", "sunny")
    yield ToolResult("two", error="no such city")
    yield ToolResult("unknown", "nobody asked")


@agent(name="measured-breaking")
async def breaking(_: RunContext) -> str:
    raise LookupError("gone")


async def test_attempts_and_tool_calls_are_measured_by_their_errors() -> None:
    async with TestFleet([caller, breaking]) as fleet:
        for _ in range(2):
            await fleet.send("measured-caller", "go")
        await fleet.send("measured-breaking", "go")
    attempts, tools = counted(_AGENT), counted(_TOOL)
    assert attempts["", "measured-caller"] == 2
    assert attempts["LookupError", "measured-breaking"] == 1
    assert attempts["", "measured-breaking"] == 0
    assert tools["", "measured-caller", "weather"] == 2
    assert tools["_OTHER", "measured-caller", "weather"] == 2
    assert ("", "measured-caller", "forms") not in tools, "the client executes it"


@agent(name="measured-inventive")
async def inventive(_: RunContext) -> AsyncIterator[Emission]:
    for number in range(150):
        yield ToolCall(f"tool-{number}", {}, id=str(number))
        yield ToolResult(str(number), "no such tool")


async def test_tools_that_a_model_invents_make_no_series_without_end() -> None:
    async with TestFleet([inventive]) as fleet:
        await fleet.send("measured-inventive", "go")
    series = counted(_TOOL).items()
    found = {labels[2]: count for labels, count in series if "measured-inventive" in labels}
    assert 1 < len(found) <= 101
    assert found["_OTHER"] >= 50
    assert sum(found.values()) == 150
