"""A run's context shows authors what they may use, and holds the runtime behind one handle."""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from headrace import (
    Activity,
    Emission,
    RunContext,
    Text,
    ToolCall,
    Usage,
)
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.runtime import Runtime

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
    (lambda ctx: ctx.emit("a"), "a"),
    (lambda ctx: ctx.emit(Text("a", "b", end=True)), Text("a", "b", end=True)),
    (lambda ctx: ctx.tool_call("add", {"n": 1}), ToolCall("add", {"n": 1}, "new call")),
    (lambda ctx: ctx.activity("PLAN", {"n": 0}), Activity("PLAN", {"n": 0}, "new activity")),
]


@pytest.mark.parametrize(("call", "output"), METHODS)
async def test_a_method_emits_its_output(
    call: Callable[[RunContext], Awaitable[object]], output: Emission
) -> None:
    assert await emitted(call) == [output]
