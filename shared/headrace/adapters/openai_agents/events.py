"""The events of an OpenAI Agents SDK agent, emitted to a task's log while it runs."""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any

from agents import (
    Agent,
    AgentUpdatedStreamEvent,
    ModelResponse,
    RawResponsesStreamEvent,
    RunHooks,
    RunItemStreamEvent,
)
from agents.tool_context import ToolContext

from headrace.adapters.active_agent import ActiveAgent
from headrace.adapters.conversation.memory import keep_response, keep_result
from headrace.adapters.conversation.turns import CallItem, Verbatim
from headrace.adapters.model_spans import ModelSpans
from headrace.adapters.openai_agents.input import FORMAT, logged
from headrace.adapters.openai_agents.replay import REPLAYED
from headrace.adapters.span_messages import of_items, response_of_items
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Text, Thinking, ToolArguments, ToolCall, ToolResult
from headrace.sdk.signals import Usage

_THOUGHTS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


def _response_messages(response: ModelResponse) -> list[Json]:
    """Return a response as a message in a span."""
    return response_of_items(item.model_dump(mode="json") for item in response.output)


class AgentsEvents(RunHooks[Any]):
    """Emits the events of one run.

    The SDK runs ahead of the consumer of its events. So a tool waits until the response that calls
    it is stored, and its result is stored before the next request.
    """

    def __init__(
        self, ctx: RunContext, first: str, known: Collection[str], *, thinking: bool
    ) -> None:
        """Emit events in the run of `ctx`.

        Args:
            ctx: The run's context.
            first: Name of the task's own agent.
            known: Ids of the calls whose results are in the log.
            thinking: Whether to emit reasoning too.
        """
        self._ctx, self._thinking = ctx, thinking
        self._answered = set(known)
        self._streamed = set[str]()
        """Ids of the response's calls that are emitted."""
        self._streaming: dict[int, tuple[str, str]] = {}
        self._given = self._kept = 0
        self._stored = asyncio.Event()
        self._stored.set()
        self._has_text = False
        self._active_agent = ActiveAgent(ctx, first)
        self._is_structured = False
        self.model_calls = ModelSpans(ctx.traceparent)
        """The spans of the model calls; at most one is open."""
        self.refusal = ""
        """The model's refusal; empty if it did not refuse."""
        self.calls: dict[str, CallItem] = {}
        """Calls of the last response, by id."""

    async def on_llm_start(
        self,
        context: Any,  # noqa: ANN401  # the library's
        agent: Any,  # noqa: ANN401  # the library's
        system_prompt: str | None,
        input_items: list[Any],
    ) -> None:
        """Record that the model is called."""
        del context
        model = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", "")
        self.model_calls.begin(
            None,
            str(model),
            "openai",
            make_messages=lambda: of_items(input_items),
            instructions=system_prompt or "",
        )

    async def on_llm_end(self, context: Any, agent: Any, response: ModelResponse) -> None:  # noqa: ANN401  # the library's
        """Record that a response is complete; its last events may still arrive."""
        del context, agent
        if response.response_id == REPLAYED:
            self.model_calls.drop(None)
        else:
            self.model_calls.end(
                None, "", vars(response.usage), make_messages=partial(_response_messages, response)
            )
        self._given += 1
        self._mark()

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:  # noqa: ANN401  # the library's
        """Delay a tool until its call is stored."""
        del context, agent, tool
        await self._stored.wait()

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:  # noqa: ANN401  # the library's
        """Save a tool's result, so that no later attempt calls the tool again."""
        del agent, tool
        if isinstance(context, ToolContext):
            await self._result(context.tool_call_id, result)

    async def relay(self, event: Any) -> None:  # noqa: ANN401  # the library's event
        """Emit `event`."""
        match event:
            case RawResponsesStreamEvent(data=data):
                await self._raw(data)
            case RunItemStreamEvent(name="tool_output" | "handoff_occured", item=item):
                raw: Any = item.raw_item
                if isinstance(raw, dict) and "call_id" in raw:
                    await self._result(str(raw["call_id"]), raw.get("output"))
            case AgentUpdatedStreamEvent(new_agent=agent):
                await self._hand_over(agent)

    async def end(self, *, suspended: bool = False) -> None:
        """End the current agent's part; `suspended` means that it waits for the user."""
        await self._active_agent.end(suspended=suspended)

    async def _hand_over(self, agent: Agent[Any]) -> None:
        """Emit which agent continues."""
        await self._active_agent.switch_to(agent.name)
        self._is_structured = agent.output_type not in {None, str}

    async def _raw(self, data: Any) -> None:  # noqa: ANN401  # an event of the Responses API
        match data.type:
            case "response.output_text.delta":
                self._has_text = True
                await self._text(data.delta)
            case kind if kind in _THOUGHTS:
                await self._think(data.delta)
            case "response.refusal.delta":
                self.refusal += data.delta
            case "response.output_item.added" if data.item.type == "function_call":
                call, name = data.item.call_id, data.item.name
                self._streamed.add(call)
                self._streaming[data.output_index] = call, name
                await self._ctx.emit(ToolArguments(call, "", name))
            case "response.function_call_arguments.delta":
                if data.delta and data.output_index in self._streaming:
                    call, _ = self._streaming[data.output_index]
                    await self._ctx.emit(ToolArguments(call, data.delta))
            case "response.output_item.done" if data.output_index in self._streaming:
                call, name = self._streaming.pop(data.output_index)
                await self._ctx.emit(ToolArguments(call, "", name, end=True))
            case "response.completed":
                await self._completed(data.response)

    async def _completed(self, response: Any) -> None:  # noqa: ANN401  # a Response
        """Save a response, so that no later attempt requests it again."""
        called = [item for item in response.output if item.type == "function_call"]
        if response.id != REPLAYED:
            await self._emit_rest(response, called)
            items = [item.model_dump(mode="json", exclude_unset=True) for item in response.output]
            verbatim = {"agent": self._active_agent.name, "items": items}
            await self._usage(response)
            await keep_response(self._ctx, Verbatim(FORMAT, verbatim))
        self.calls = {
            item.call_id: CallItem.of_text(item.call_id, item.name, item.arguments)
            for item in called
        }
        self._has_text = False
        self._kept += 1
        self._mark()

    async def _emit_rest(self, response: Any, called: list[Any]) -> None:  # noqa: ANN401  # a Response
        """Emit what has not streamed, and end the calls that have."""
        for item in response.output:
            if item.type == "message" and not self._has_text:
                await self._text("".join(getattr(part, "text", "") for part in item.content))
        for call, name in self._streaming.values():
            await self._ctx.emit(ToolArguments(call, "", name, end=True))
        self._streaming.clear()
        for item in called:
            if item.call_id not in self._streamed:
                whole = CallItem.of_text(item.call_id, item.name, item.arguments)
                await self._ctx.emit(ToolCall(whole.name, whole.arguments, whole.id))
        self._streamed.clear()

    async def _text(self, text: str) -> None:
        # Structured output is emitted as data at the end.
        if text and not self._is_structured:
            await self._ctx.emit(Text(text))

    async def _think(self, text: str) -> None:
        if text and self._thinking:
            await self._ctx.emit(Thinking(text))

    async def _usage(self, response: Any) -> None:  # noqa: ANN401  # a Response
        if (used := response.usage) is None:
            return
        given, made = used.input_tokens_details, used.output_tokens_details
        usage = Usage(
            response.model or "",
            "",
            used.input_tokens or 0,
            used.output_tokens or 0,
            reasoning_tokens=(made and made.reasoning_tokens) or 0,
            cached_input_tokens=(given and given.cached_tokens) or 0,
        )
        await self._ctx.emit(usage)

    async def _result(self, call: str, content: object) -> None:
        if call in self._answered:
            return
        self._answered.add(call)
        result, beside = logged(content)
        verbatim = None if beside is None else Verbatim(FORMAT, beside)
        await keep_result(self._ctx, ToolResult(call, result), verbatim)

    def _mark(self) -> None:
        if self._kept >= self._given:
            self._stored.set()
        else:
            self._stored.clear()
