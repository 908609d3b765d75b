"""Agents for the clients in AG-UI's documents, which share state and provide tools."""

import json
from collections.abc import AsyncIterator

from headrace import Card, Emission, InputRequired, RunContext, State, StateDelta, ToolCall, agent
from headrace.model import parts


@agent(card=Card(capabilities={"state": {"snapshots": True, "deltas": True}}))
async def patcher(run: RunContext) -> AsyncIterator[Emission]:
    """Applies a JSON Patch, which its message is, to the state that the client sent."""
    yield State(run.state)
    yield StateDelta(json.loads(run.prompt))
    yield json.dumps(run.state)


@agent(card=Card(capabilities={"tools": {"supported": True, "clientProvided": True}}))
async def caller(run: RunContext) -> AsyncIterator[Emission]:
    """Calls each tool of the client's with all that it requires, then says what they said."""
    if results := [found.content for part in run.parts if (found := parts.tool_result(part))]:
        yield ", ".join(map(str, results))
        return
    calls = list[str]()
    for tool in run.agui.get("tools") or []:
        calls.append(run.new_id("call"))
        required = dict.fromkeys(tool["parameters"]["required"], "this")
        yield ToolCall(tool["name"], required, calls[-1])
    yield InputRequired(tool_calls=calls)
