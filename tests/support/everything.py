"""An agent that emits every kind of output."""

from collections.abc import AsyncIterator

from headrace import (
    Activity,
    ActivityDelta,
    Card,
    Complete,
    Custom,
    Data,
    Emission,
    File,
    InputRequired,
    Raw,
    RunContext,
    State,
    StateDelta,
    Status,
    Step,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    Usage,
    agent,
)

PICTURE = b"\x89PNG\r\n\x1a\n"


@agent(card=Card(input_modes=["*/*"], capabilities={"tools": {"supported": True}}))
async def everything(run: RunContext) -> AsyncIterator[Emission]:
    """Says everything; then completes, fails or asks, as its message has it."""
    yield Status("Begins.")
    yield Step("plan")
    yield State({"count": 1})
    yield StateDelta([{"op": "replace", "path": "/count", "value": 2}])
    yield Thinking("First this, ", title="Plan")
    yield Thinking("then that.", end=True)
    yield ToolCall("search", {"query": "words"}, "call-whole")
    yield ToolArguments("call-streamed", '{"text": ', "count")
    yield ToolArguments("call-streamed", '"words"}', end=True)
    yield ToolResult("call-whole", {"found": 3})
    yield ToolResult("call-streamed", "", "too many")
    yield Text("Outer begins, ", "outer")
    yield Text("inner", "inner", type="code")
    yield Text("outer ends.", "outer", end=True)
    yield Text(" ends", "inner", end=True)
    yield File("picture.png", PICTURE, "image/png")
    yield File("paper.pdf", url="https://files.example/paper.pdf", media_type="application/pdf")
    yield Data({"data": {"rows": 2}}, "table")
    yield Activity("PLAN", {"steps": []}, "activity")
    yield ActivityDelta("activity", [{"op": "add", "path": "/steps/-", "value": "one"}])
    yield Custom("hint", {"colour": "green"})
    yield Raw({"kind": "other"}, "elsewhere")
    yield Usage("model", "provider", 3, 4, 7)
    yield Step("plan", finished=True)
    if "fail" in run.prompt:
        raise RuntimeError("for the log alone")
    yield InputRequired("Which one?") if "ask" in run.prompt else Complete("That is all.")
