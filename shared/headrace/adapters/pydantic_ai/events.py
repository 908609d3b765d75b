"""The events of a pydantic-ai agent, emitted to a task's log while it runs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import NoOpTracer
from pydantic import BaseModel
from pydantic_ai import AgentRunResultEvent, DeferredToolRequests, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    CustomEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    OutputToolCallEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
)
from pydantic_ai.usage import RequestUsage, UsageBase

from headrace.adapters.ag_ui.events import AguiEvents
from headrace.adapters.as_json import as_json
from headrace.adapters.call_ids import CallIds
from headrace.adapters.conversation.memory import keep_response, keep_result
from headrace.adapters.conversation.turns import CallItem, Verbatim
from headrace.adapters.model_spans import ModelSpans
from headrace.adapters.pydantic_ai.messages import (
    FORMAT,
    Past,
    instructions_of,
    span_messages_of,
    verbatim_of,
    verbatim_of_result,
)
from headrace.adapters.questions.approvals import ask, question
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Data, Text, Thinking, ToolArguments, ToolCall, ToolResult
from headrace.sdk.signals import Custom, Usage

_FAILED = frozenset({"failed", "retried", "denied", "interrupted"})


@dataclass
class ReplayedResponses(AbstractCapability[Any]):
    """Passes responses on unchanged, and returns the results that are already in the log."""

    emitter: "PydanticEvents"
    past: Past
    """The conversation, with the results of calls that an earlier attempt executed."""

    async def prepare_output_tools(self, ctx: Any, tool_defs: Any) -> Any:  # noqa: ANN401  # the library's
        """Record which tools represent structured answers."""
        del ctx
        self.emitter.outputs |= {tool.name for tool in tool_defs}
        return tool_defs

    async def wrap_model_request(
        self,
        ctx: Any,  # noqa: ANN401  # the library's
        *,
        request_context: Any,  # noqa: ANN401  # the library's
        handler: Any,  # noqa: ANN401  # the library's
    ) -> ModelResponse:
        """Call the model within a span, unless the library's own instrumentation makes one."""
        if not isinstance(ctx.tracer, NoOpTracer):
            instrumented: ModelResponse = await handler(request_context)
            return instrumented
        model, calls = request_context.model, self.emitter.model_calls
        call = object()
        messages = request_context.messages
        calls.begin(
            call,
            model.model_name,
            model.system,
            make_messages=lambda: span_messages_of(messages),
            instructions=instructions_of(messages),
        )
        try:
            response: ModelResponse = await handler(request_context)
        except BaseException as error:
            calls.fail(call, type(error).__name__)
            raise
        used = response.usage
        tokens = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
        calls.end(
            call,
            response.model_name or "",
            tokens,
            make_messages=lambda: span_messages_of([response]),
        )
        return response

    async def after_model_request(
        self,
        ctx: Any,  # noqa: ANN401  # the library's
        *,
        request_context: Any,  # noqa: ANN401  # the library's
        response: ModelResponse,
    ) -> ModelResponse:
        """Pass a response on."""
        del ctx, request_context
        self.emitter.responded(response)
        return response

    async def wrap_tool_execute(
        self,
        ctx: Any,  # noqa: ANN401  # the library's
        *,
        call: ToolCallPart,
        tool_def: Any,  # noqa: ANN401  # the library's
        args: Any,  # noqa: ANN401  # the library's
        handler: Any,  # noqa: ANN401  # the library's
    ) -> Any:  # noqa: ANN401  # a tool's result
        """Execute a call once its response is stored, unless it has a result already."""
        del ctx, tool_def
        done = self.past.results.get(call.tool_call_id)
        if done is None:
            await self.emitter.stored()
            return await handler(args)
        if done.outcome in _FAILED:
            raise ToolFailed(str(done.content))
        if (extra := self.past.extra.get(call.tool_call_id)) is not None:
            return ToolReturn(done.content, content=extra.content)
        return done.content


class PydanticEvents:
    """Emits the events of one run."""

    def __init__(
        self,
        ctx: RunContext,
        used: set[str],
        known: Mapping[str, Any],
        *,
        thinking: bool,
        approve_within: float | None,
    ) -> None:
        """Emit events in the run of `ctx`.

        Args:
            ctx: The run's context.
            used: Ids of the conversation's calls so far.
            known: Calls whose results are in the log, by id.
            thinking: Whether to emit reasoning too.
            approve_within: Seconds after which an open approval counts as refused; None for no
                limit.
        """
        self._ctx, self._thinking, self._within = ctx, thinking, approve_within
        self._used, self._known = used, known
        self._ids = CallIds(ctx, used)
        self._streaming: dict[int, str] = {}
        self._responses: list[ModelResponse] = []
        self._spent = RequestUsage()
        self.model_calls = ModelSpans(ctx.traceparent)
        """The spans of the model calls."""
        self._stored = asyncio.Event()
        self._stored.set()
        self._agui = AguiEvents(ctx)
        self.outputs = set[str]()
        """Names of the tools that represent structured answers."""
        self.arguments: Mapping[str, Json] = {}
        """JSON Schemas of the agent's own tools, by name."""

    def responded(self, response: ModelResponse) -> None:
        """Record a complete response; its last events may still arrive."""
        self._responses.append(response)
        self._stored.clear()

    async def stored(self) -> None:
        """Wait until the last response is in the log."""
        await self._stored.wait()

    async def relay(self, event: Any) -> None:  # noqa: ANN401  # the library's event
        """Emit `event`."""
        match event:
            case PartStartEvent():
                await self._keep()
                await self._start(event.index, event.part)
            case PartDeltaEvent():
                await self._delta(event.index, event.delta)
            case PartEndEvent():
                await self._end(event.index, event.part)
            case FunctionToolCallEvent(part=part):
                await self._keep()
                await self._call(part)
            case OutputToolCallEvent():
                await self._keep()
            case FunctionToolResultEvent():
                await self._result(event)
            case CustomEvent():
                await self._custom(event)
            case AgentRunResultEvent(result=result):
                await self._keep()
                await self._finish(result)

    async def _start(self, index: int, part: Any) -> None:  # noqa: ANN401  # a part of a response
        match part:
            case TextPart():
                await self._text(part.content)
            case ThinkingPart():
                await self._think(part.content)
            case ToolCallPart() if part.tool_name not in self.outputs:
                own = self._streaming[index] = self._ids.add(part.tool_call_id)
                await self._ctx.emit(ToolArguments(own, _text_of(part.args), part.tool_name))

    async def _delta(self, index: int, delta: Any) -> None:  # noqa: ANN401  # a piece of a part
        match delta:
            case TextPartDelta():
                await self._text(delta.content_delta)
            case ThinkingPartDelta():
                await self._think(delta.content_delta or "")
            case ToolCallPartDelta(args_delta=str(piece)) if piece and index in self._streaming:
                await self._ctx.emit(ToolArguments(self._streaming[index], piece))

    async def _end(self, index: int, part: Any) -> None:  # noqa: ANN401  # a part of a response
        match part:
            case TextPart():
                await self._ctx.emit(Text("", end=True))
            case NativeToolCallPart():
                own = self._ids.add(part.tool_call_id)
                await self._ctx.emit(ToolCall(part.tool_name, part.args_as_dict(), own))
            case NativeToolReturnPart():
                await self._ctx.emit(_result(self._ids.get(part.tool_call_id, ""), part))
            case ToolCallPart() if index in self._streaming:
                own = self._streaming.pop(index)
                self._ids[part.tool_call_id] = own
                # Arguments that are an object are complete only at the end.
                rest = json_text.text(part.args) if isinstance(part.args, dict) else ""
                await self._ctx.emit(ToolArguments(own, rest, part.tool_name, end=True))

    async def _keep(self) -> None:
        """Save complete responses, so that no later attempt requests them again."""
        while self._responses:
            response = self._responses.pop(0)
            await self._emit_usage(response, response.usage, _cost(response))
            self._spent += response.usage
            await keep_response(self._ctx, Verbatim(FORMAT, verbatim_of(response, self._ids)))
        self._stored.set()

    async def _text(self, text: str) -> None:
        if text:
            await self._ctx.emit(text)

    async def _think(self, text: str) -> None:
        if text and self._thinking:
            await self._ctx.emit(Thinking(text))

    async def _call(self, part: ToolCallPart) -> None:
        """Emit a call that did not stream."""
        known = part.tool_call_id in self._ids or part.tool_call_id in self._used
        if not known and part.tool_name not in self.outputs:
            own = self._ids.add(part.tool_call_id)
            await self._ctx.emit(ToolCall(part.tool_name, part.args_as_dict(), own))

    async def _result(self, event: FunctionToolResultEvent) -> None:
        part: Any = event.part
        if part.tool_call_id in self._known:
            return
        for agui_event in _events_of(part.metadata or part.content):
            await self._agui.relay(agui_event)
        own, verbatim = self._ids.of(part.tool_call_id), None
        if isinstance(part, ToolReturnPart) and (
            part.files or event.content or part.outcome not in {"success", "failed"}
        ):
            extra = [event.content] if isinstance(event.content, str) else event.content or ()
            verbatim = Verbatim(FORMAT, verbatim_of_result(part, extra, own))
        await keep_result(self._ctx, _result(own, part), verbatim)

    async def _custom(self, event: CustomEvent) -> None:
        payload = event.to_payload()
        if events := _events_of(payload):
            await self._agui.relay(events[0])
        else:
            await self._ctx.emit(Custom(event.name, as_json(payload)))

    async def _finish(self, result: Any) -> None:  # noqa: ANN401  # an AgentRunResult
        # The total includes agents that its tools ran with this run's usage.
        used, spent = result.usage, self._spent
        extra = RequestUsage(
            input_tokens=used.input_tokens - spent.input_tokens,
            output_tokens=used.output_tokens - spent.output_tokens,
            cache_read_tokens=used.cache_read_tokens - spent.cache_read_tokens,
            cache_write_tokens=used.cache_write_tokens - spent.cache_write_tokens,
        )
        await self._emit_usage(result.response, extra)
        output = result.output
        if isinstance(output, DeferredToolRequests):
            await self._defer(output)
        elif not isinstance(output, str | None):
            await self._ctx.emit(Data(as_json(output), "output"))
        elif output and result.response.tool_calls:
            # An output function made it: the model has emitted no text.
            await self._ctx.emit(output)

    async def _emit_usage(
        self, response: ModelResponse, used: UsageBase, cost: float = 0.0
    ) -> None:
        if not used.total_tokens:
            return
        usage = Usage(
            response.model_name or "",
            response.provider_name or "",
            used.input_tokens,
            used.output_tokens,
            cached_input_tokens=used.cache_read_tokens,
            cache_write_input_tokens=used.cache_write_tokens,
            cost=cost,
        )
        await self._ctx.emit(usage)

    async def _defer(self, output: DeferredToolRequests) -> None:
        for part in (*output.calls, *output.approvals):
            await self._call(part)
        interrupts = [
            question(
                CallItem(self._ids.of(part.tool_call_id), part.tool_name, part.args_as_dict()),
                as_json(output.metadata.get(part.tool_call_id)),
                self._within,
                self.arguments.get(part.tool_name),
            )
            for part in output.approvals
        ]
        pending = [self._ids.of(part.tool_call_id) for part in output.calls]
        await ask(self._ctx, interrupts, pending)


def _result(own: str, part: Any) -> ToolResult:  # noqa: ANN401  # a ToolReturnPart
    # Files appear by name, as in pydantic-ai's own adapter for user interfaces.
    files = isinstance(part, ToolReturnPart) and part.files
    content = part.model_response_str() if files else as_json(part.content)
    if part.outcome in _FAILED:
        return ToolResult(own, "", content if isinstance(content, str) else str(content))
    return ToolResult(own, content)


def _text_of(arguments: str | Mapping[str, Any] | None) -> str:
    """Return the arguments if they are text; an object may still grow."""
    return arguments if isinstance(arguments, str) else ""


def _events_of(returned: Any) -> list[Any]:  # noqa: ANN401  # whatever a tool attached or returned
    """Return, as JSON, the AG-UI events that a tool returned or attached to its result."""
    attached = returned if isinstance(returned, list | tuple | set | frozenset) else [returned]
    events = [each for each in attached if _is_event(each)]
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in events]


def _is_event(attached: Any) -> bool:  # noqa: ANN401  # whatever the tool attached
    names = {
        base.__name__ for base in type(attached).__mro__ if base.__module__.startswith("ag_ui.")
    }
    return isinstance(attached, BaseModel) and "BaseEvent" in names


def _cost(response: ModelResponse) -> float:
    """Return what the response costs by the library's own list of prices; 0: it is not in there."""
    if not response.model_name:
        return 0.0
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):
        return 0.0
