"""Replay of a response from the log, in the OpenAI Agents SDK.

The SDK executes only calls of a response that its model gives. So the agent is copied with a model
that first returns the response from the log, and then calls the agent's own model. The copy's tools
return results that are already in the log, and apply the user's decisions.
"""

import copy
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import Agent, FunctionTool, Handoff, RunConfig
from agents.models.interface import Model
from agents.tool_context import ToolContext
from openai.types.responses import Response, ResponseCompletedEvent

from headrace.adapters.client_tools import with_defaults
from headrace.adapters.conversation.turns import CallItem
from headrace.adapters.questions.approvals import Decision
from headrace.model import json_text
from headrace.model.events import Json

REPLAYED = "replayed"
"""Id of the response that comes from the log."""
_REFUSED = "The user did not approve the call."


@dataclass(frozen=True, slots=True)
class Replay:
    """A response from the log, and the results and decisions on its calls."""

    items: Sequence[Json]
    calls: Sequence[CallItem]
    results: Mapping[str, Any]
    """Results in the log, by call id."""
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """The user's decisions, by call id."""
    extra: Sequence[Json] = ()
    """Items of what the user said in addition to the decisions."""


def pending_tools(tools: Sequence[Json]) -> list[FunctionTool]:
    """Return an AG-UI client's tools.

    Each needs approval, so that a call ends the run instead of being executed.
    """
    return [
        FunctionTool(
            name=tool["name"],
            description=tool["description"],
            params_json_schema=tool["parameters"],
            on_invoke_tool=_not_here,
            strict_json_schema=False,
            needs_approval=True,
        )
        for tool in tools
    ]


def handoff_names(agent: Agent[Any]) -> set[str]:
    """Return the names of the agent's handoff tools."""
    return {
        each.tool_name if isinstance(each, Handoff) else Handoff.default_tool_name(each)
        for each in agent.handoffs
    }


def reachable(entry: Agent[Any], name: str) -> Agent[Any]:
    """Return the agent `name` among those reachable by handoffs from `entry`, else `entry`."""
    waiting, seen = [entry], set[int]()
    while waiting:
        agent = waiting.pop(0)
        if agent.name == name:
            return agent
        if id(agent) in seen:
            continue
        seen.add(id(agent))
        for each in agent.handoffs:
            target = getattr(each, "_agent_ref", lambda: None)() if _is_handoff(each) else each
            if isinstance(target, Agent):
                waiting.append(target)
    return entry


def replaying(
    agent: Agent[Any], tools: Sequence[Any], replay: Replay, config: RunConfig
) -> Agent[Any]:
    """Return a copy of `agent`, with `tools`, that starts with the response of `replay`."""
    names = {getattr(tool, "name", "") for tool in tools} | handoff_names(agent)
    gone = [with_defaults({"name": call.name}) for call in replay.calls if call.name not in names]
    wrapped = [
        _answering(tool, replay) if isinstance(tool, FunctionTool) else tool
        for tool in (*tools, *pending_tools(gone))
    ]
    model = _Replaying(_model_of(agent, config), replay)
    return agent.clone(
        model=model, model_settings=agent.model_settings, tools=wrapped, mcp_servers=[]
    )


class _Replaying(Model):
    """Model that returns the response from the log, then those of the agent's own model."""

    def __init__(self, model: Model, replay: Replay) -> None:
        self._model, self._replay, self._is_over = model, replay, False

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # the library's
        return await self._model.get_response(*args, **kwargs)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002, ANN401  # the library's
        *args: Any,  # noqa: ANN401  # the library's
        **kwargs: Any,  # noqa: ANN401  # the library's
    ) -> AsyncIterator[Any]:
        if not self._is_over:
            self._is_over = True
            yield _completed(self._replay.items)
            return
        items = self._with_extra(input)
        async for event in self._model.stream_response(system_instructions, items, *args, **kwargs):
            yield event

    def _with_extra(self, items: Any) -> Any:  # noqa: ANN401  # the library's
        """Insert what the user said with the decisions after the results of these."""
        if not self._replay.extra or isinstance(items, str):
            return items
        mine = {call.id for call in self._replay.calls}
        results = [
            index
            for index, item in enumerate(items)
            if item.get("type") == "function_call_output" and item.get("call_id") in mine
        ]
        behind = results[-1] + 1 if results else len(items)
        return [*items[:behind], *self._replay.extra, *items[behind:]]


def _completed(items: Sequence[Json]) -> ResponseCompletedEvent:
    response = Response.model_validate(
        {
            "id": REPLAYED,
            "created_at": 0,
            "model": "",
            "object": "response",
            "output": items,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    return ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def _model_of(agent: Agent[Any], config: RunConfig) -> Model:
    """Return the model that the SDK would use for the agent."""
    model = config.model if config.model is not None else agent.model
    return model if isinstance(model, Model) else config.model_provider.get_model(model)


def _answering(tool: FunctionTool, replay: Replay) -> FunctionTool:
    """Return a copy of the tool that uses known results and decisions."""
    carry_out, asks = tool.on_invoke_tool, tool.needs_approval

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:  # noqa: ANN401  # a result
        if ctx.tool_call_id in replay.results:
            return replay.results[ctx.tool_call_id]
        decision = replay.decisions.get(ctx.tool_call_id)
        if decision is None or (decision.approved and decision.arguments is None):
            return await carry_out(ctx, arguments)
        if decision.approved:
            edited = json_text.text(decision.arguments)
            return await carry_out(ctx, edited)
        return decision.reason or _REFUSED

    async def needs_approval(ctx: Any, arguments: Json, call: str) -> bool:  # noqa: ANN401  # the library's
        if call in replay.results or call in replay.decisions:
            return False
        return asks if isinstance(asks, bool) else await asks(ctx, arguments, call)

    copied = copy.copy(tool)
    copied.on_invoke_tool, copied.needs_approval = invoke, needs_approval
    return copied


async def _not_here(ctx: ToolContext[Any], arguments: str) -> str:
    del ctx, arguments
    return "there was no answer"


def _is_handoff(each: Any) -> bool:  # noqa: ANN401  # an Agent or a Handoff
    return isinstance(each, Handoff)
