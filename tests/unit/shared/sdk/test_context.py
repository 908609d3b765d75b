"""A run's context shows authors what they may use, and holds the runtime behind one handle."""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from headrace import (
    Activity,
    ActivityDelta,
    Custom,
    Data,
    Emission,
    File,
    Messages,
    Raw,
    RunContext,
    State,
    StateDelta,
    Status,
    Step,
    Subagent,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
    Usage,
)
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.emit import OUTPUTS, Artifact, RelayedMessage
from headrace.sdk.runtime import Runtime
from headrace.sdk.signals import SIGNALS

ADD = {"op": "add", "path": "/n", "value": 1}
USED = Usage(input_tokens=3, output_tokens=4)


class Notes:
    """A runtime that notes what is emitted."""

    loop = None

    def __init__(self) -> None:
        self.emitted: list[Emission] = []
        self.output = self.files = self

    def emit(self, output: Emission) -> bool:
        self.emitted.append(output)
        return True

    async def offloaded(self, output: Emission) -> Emission:
        return output

    def new_id(self, kind: str) -> str:
        return f"new {kind}"


async def emitted(call: Callable[[RunContext], Awaitable[object]]) -> list[Emission]:
    """Return what a method of the context emits."""
    notes = Notes()
    await call(replace(DirectRun("any", "hi").context, _runtime=cast("Any", notes)))
    return notes.emitted


def test_the_runtime_is_the_only_private_field() -> None:
    private = {one.name: one.type for one in fields(RunContext) if one.name.startswith("_")}
    assert private == {"_runtime": Runtime}


def test_everything_else_is_explained_to_authors() -> None:
    members = {name: one for name, one in vars(RunContext).items() if not name.startswith("_")}
    assert len(members) > 20
    assert [name for name, one in members.items() if not one.__doc__] == []


METHODS: list[tuple[Callable[[RunContext], Awaitable[object]], Emission]] = [
    (lambda ctx: ctx.text("a"), "a"),
    (lambda ctx: ctx.text("a", "b", end=True), Text("a", "b", end=True)),
    (lambda ctx: ctx.think("a", encrypted="e"), Thinking("a", encrypted="e")),
    (lambda ctx: ctx.tool_call("add", {"n": 1}), ToolCall("add", {"n": 1}, "new call")),
    (
        lambda ctx: ctx.tool_arguments("c", '{"n', "add", end=True),
        ToolArguments("c", '{"n', "add", end=True),
    ),
    (lambda ctx: ctx.tool_result("c", 2, "odd"), ToolResult("c", 2, "odd")),
    (lambda ctx: ctx.file("a.txt", b"a", "text/plain"), File("a.txt", b"a", "text/plain")),
    (lambda ctx: ctx.data({"n": 1}, "sum"), Data({"n": 1}, "sum")),
    (lambda ctx: ctx.status("adding"), Status("adding")),
    (lambda ctx: ctx.set_state({"n": 1}), State({"n": 1})),
    (lambda ctx: ctx.change_state([ADD]), StateDelta([ADD])),
    (lambda ctx: ctx.messages([{"id": "m"}]), Messages([{"id": "m"}])),
    (lambda ctx: ctx.activity("PLAN", {"n": 0}), Activity("PLAN", {"n": 0}, "new activity")),
    (lambda ctx: ctx.change_activity("a", [ADD]), ActivityDelta("a", [ADD])),
    (lambda ctx: ctx.subagent(Subagent("sums", "s")), Subagent("sums", "s")),
    (lambda ctx: ctx.usage(USED), USED),
    (lambda ctx: ctx.custom("seen", 1), Custom("seen", 1)),
    (lambda ctx: ctx.raw({"n": 1}, "here"), Raw({"n": 1}, "here")),
]


@pytest.mark.parametrize(("call", "output"), METHODS)
async def test_a_method_emits_its_output(
    call: Callable[[RunContext], Awaitable[object]], output: Emission
) -> None:
    assert await emitted(call) == [output]


def test_every_output_of_an_agent_has_a_method() -> None:
    kinds = {type(output) for _, output in METHODS}
    assert {*OUTPUTS, *SIGNALS} - kinds == {Artifact, RelayedMessage, Step}
