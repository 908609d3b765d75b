"""The events of a graph, emitted to a task's log while it runs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.types import Interrupt

from headrace.adapters.as_json import as_json
from headrace.adapters.client_tools import client_tools
from headrace.adapters.langgraph.calls import GraphCalls
from headrace.adapters.langgraph.interrupts import question
from headrace.adapters.langgraph.memory import NO_CHECKPOINTER
from headrace.adapters.langgraph.spans import LangGraphSpans
from headrace.adapters.langgraph.threads import RunStart
from headrace.adapters.questions.approvals import ask
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import (
    ENDINGS,
    OUTPUTS,
    Data,
    InputRequired,
    Outcome,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    ToolResult,
)
from headrace.sdk.signals import Custom, State, Step, Usage

_OWN = (*OUTPUTS, *ENDINGS)


class LangGraphEvents:
    """Emits what one run of a graph streams."""

    def __init__(  # noqa: PLR0913  # what of the graph and of its options decides on events
        self,
        ctx: RunContext,
        answer_from: Collection[str] | None,
        output: str,
        state_keys: Sequence[str],
        *,
        calls: GraphCalls,
        tools: Mapping[str, Json],
        resumes: bool,
    ) -> None:
        """Emit events in the run of `ctx`; `langgraph_agent` documents the other arguments.

        `calls`: the task's calls so far. `tools`: JSON Schemas of the graph's tools, by name.
        `resumes`: whether the graph has a checkpointer to resume from after a question.
        """
        self._ctx, self._answer_from, self._resumes = ctx, answer_from, resumes
        self._output, self._state_keys = output, state_keys
        self._calls, self._tools = calls, tools
        self._complete: set[str] = set()
        self._metered: set[str] = set()
        self._values: Any = None
        self._is_answered = False
        self._catches_up = False
        self._interrupts: dict[str, Interrupt] = {}
        self.model_calls = LangGraphSpans(ctx.traceparent)
        """The spans of the model calls."""
        self.stops = False
        """Whether the graph has stopped at a static breakpoint."""

    async def relay(self, place: tuple[str, ...], mode: str, item: Any) -> None:  # noqa: ANN401  # per mode
        """Emit a streamed item; `place` is the subgraph that it comes from, if any."""
        match mode:
            case "messages":
                message, about = item
                if self._answer_from is None or about.get("langgraph_node") in self._answer_from:
                    await self._message(message)
            case "custom":
                await self._custom(item)
            case "updates":
                await self._update(item, inner=bool(place))
            case "values" if not place:
                self._values = item
                await self._share()
            case "tasks" if not place:
                self._catches_up &= "result" not in item
                await self._ctx.emit(Step(item["name"], finished="result" in item))

    async def catch_up(self, start: RunStart) -> None:
        """Emit what earlier attempts produced but did not emit."""
        self._values, self._catches_up = start.values, start.goes_on
        for node, update in start.missed:
            await self._update_of(node, update)
        if start.goes_on:
            await self._share()

    async def end(self, before: Sequence[Json], stop: Json | None, ends: str | None) -> None:
        """Emit the answer in the graph's state, and the open interrupts.

        Args:
            before: Earlier interrupts, which are repeated unchanged.
            stop: The interrupt for the static breakpoint at which the graph stopped, if any.
            ends: Expiry of new interrupts.
        """
        found = self._values.get(self._output) if self._is_answered else None
        if isinstance(found, str):
            await self._ctx.emit(found)
        elif found is not None:
            await self._ctx.emit(Data(as_json(found), self._output))
        known = {each["id"]: each for each in before}
        interrupts = [
            known.get(each.id) or question(each, ends, self._tools)
            for each in self._interrupts.values()
        ]
        if interrupts and not self._resumes:
            await self._ctx.emit(Outcome.because(NO_CHECKPOINTER))
        elif interrupts or stop is not None:
            await ask(self._ctx, interrupts or [stop or {}])
        elif pending := self._pending():
            await self._ctx.emit(InputRequired(tool_calls=pending))

    def _pending(self) -> list[str]:
        """Return open calls of the client's tools at the end of the graph."""
        offered = {tool["name"] for tool in client_tools(self._ctx)}
        messages = self._values.get("messages") if isinstance(self._values, dict) else None
        if not offered or not isinstance(messages, list):
            return []
        done = set[str]()
        for message in reversed(messages):
            if isinstance(message, ToolMessage):
                done.add(message.tool_call_id)
            elif isinstance(message, AIMessage):
                called = {call["id"] or "": call["name"] for call in message.tool_calls}
                left = [call for call in called if called[call] in offered and call not in done]
                return [self._calls.of(call) for call in left]
            else:
                break
        return []

    async def _message(self, message: Any) -> None:  # noqa: ANN401  # a BaseMessage
        if isinstance(message, AIMessageChunk):
            await self._piece(message)
        elif isinstance(message, AIMessage):
            await self._blocks(message)
            for call in message.tool_calls:
                await self._call(message.id or "", call)
            await self._end_of(message)
        elif isinstance(message, ToolMessage):
            await self._result(message)
        if isinstance(message, AIMessage) and message.usage_metadata:
            await self._usage(message)

    async def _piece(self, chunk: AIMessageChunk) -> None:
        await self._blocks(chunk)
        for piece in chunk.tool_call_chunks:
            if (arguments := self._calls.piece(chunk.id or "", piece)) is not None:
                await self._ctx.emit(arguments)
        if chunk.chunk_position == "last":
            await self._end_of(chunk)

    async def _blocks(self, message: AIMessage) -> None:
        label = message.id or ""
        for block in message.content_blocks:
            if block["type"] == "text" and block["text"] and label not in self._complete:
                await self._ctx.emit(Text(block["text"], label))
            elif block["type"] == "reasoning" and block.get("reasoning"):
                await self._ctx.emit(Thinking(block["reasoning"]))

    async def _call(self, message: str, call: Any) -> None:  # noqa: ANN401  # a ToolCall
        own = self._calls.whole(message, call["id"] or "")
        if own is not None:
            await self._ctx.emit(ToolCall(call["name"], as_json(call["args"]), own))

    async def _end_of(self, message: AIMessage) -> None:
        label = message.id or ""
        for call in self._calls.end(label):
            own = call.own or self._ctx.new_id("call")
            await self._ctx.emit(ToolArguments(own, call.arguments, call.name, end=True))
        if label and label not in self._complete and message.text:
            await self._ctx.emit(Text("", label, end=True))
        self._complete.add(label)

    async def _result(self, message: ToolMessage) -> None:
        content = as_json(message.content)
        failed = message.status == "error"
        error = (message.text or "it failed") if failed else ""
        own = self._calls.answered(message.tool_call_id)
        await self._ctx.emit(ToolResult(own, "" if failed else content, error))

    async def _usage(self, message: AIMessage) -> None:
        used, about = message.usage_metadata, message.response_metadata
        # A streamed message also comes as a whole; its pieces have reported the usage already.
        is_counted = message.id in self._metered and not isinstance(message, AIMessageChunk)
        if used is not None and not is_counted:
            if message.id:
                self._metered.add(message.id)
            model, provider = about.get("model_name") or "", about.get("model_provider") or ""
            await self._ctx.emit(
                Usage(model, provider, used.get("input_tokens", 0), used.get("output_tokens", 0))
            )

    async def _custom(self, custom: Any) -> None:  # noqa: ANN401  # whatever a node writes
        if isinstance(custom, _OWN):
            await self._ctx.emit(custom)
        else:
            await self._ctx.emit(Custom("langgraph", as_json(custom)))

    async def _update(self, updates: Any, *, inner: bool) -> None:  # noqa: ANN401  # by node
        for node, update in updates.items():
            if node == "__interrupt__":
                self._interrupts |= {interrupt.id: interrupt for interrupt in update}
                self.stops = self.stops or not (inner or update)
            elif not inner and self._catches_up:
                await self._update_of(node, update)
            elif not inner:
                self._note(update)

    async def _update_of(self, node: str, update: Any) -> None:  # noqa: ANN401  # whatever a node returns
        """Emit the messages in the update of an earlier attempt's node."""
        self._note(update)
        if self._answer_from is None or node in self._answer_from:
            for message in _messages_in(update):
                await self._message(message)

    def _note(self, update: Any) -> None:  # noqa: ANN401  # whatever a node returns
        self._is_answered |= (
            bool(self._output) and isinstance(update, dict) and self._output in update
        )

    async def _share(self) -> None:
        """Emit the state shared with user interfaces, if it has changed."""
        values = self._values if isinstance(self._values, dict) else {}
        shared = {key: values[key] for key in self._state_keys if key in values}
        if not shared:
            return
        known = self._ctx.state
        state = {**(known if isinstance(known, dict) else {}), **as_json(shared)}
        if state != known:
            await self._ctx.emit(State(state))


def _messages_in(update: Any) -> Iterator[BaseMessage]:  # noqa: ANN401  # whatever a node returns
    values = update.values() if isinstance(update, dict) else [update]
    for value in values:
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, BaseMessage):
                yield each
