"""What a pydantic-ai agent does, said in a task's log while it does it."""

from typing import Any

from pydantic_core import to_jsonable_python

from headrace_worker.adapters.extras import needs
from headrace_worker.context import RunContext
from headrace_worker.emission import Data, InputRequired, Text, Thinking, ToolCall, ToolResult
from headrace_worker.errors import MalformedOutput
from headrace_worker.signals import Custom, Usage

with needs("pydantic-ai"):
    from pydantic_ai import AgentRunResultEvent, DeferredToolRequests
    from pydantic_ai.messages import (
        CustomEvent,
        FunctionToolCallEvent,
        FunctionToolResultEvent,
        PartDeltaEvent,
        PartEndEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

_FAILED = frozenset({"failed", "retried", "denied", "interrupted"})


class Telling:
    """Says one run's events."""

    def __init__(self, ctx: RunContext, *, thinking: bool) -> None:
        """Say them in the run of `ctx`; `thinking`: reasoning too."""
        self._ctx, self._thinking = ctx, thinking
        self._called: set[str] = set()

    async def take(self, event: Any) -> None:  # noqa: ANN401  # whatever the library says
        """Say `event`.

        Raises:
            MalformedOutput: the agent asks for what this door can't give.
        """
        match event:
            case PartStartEvent(part=TextPart() as part):
                await self._text(part.content)
            case PartStartEvent(part=ThinkingPart() as part):
                await self._think(part.content)
            case PartDeltaEvent(delta=TextPartDelta() as delta):
                await self._text(delta.content_delta)
            case PartDeltaEvent(delta=ThinkingPartDelta() as delta):
                await self._think(delta.content_delta or "")
            case PartEndEvent(part=TextPart()):
                await self._ctx.emit(Text("", end=True))
            case FunctionToolCallEvent(part=part):
                await self._call(part)
            case FunctionToolResultEvent(part=part):
                await self._result(part)
            case CustomEvent():
                await self._ctx.emit(Custom(event.name, to_jsonable_python(event)))
            case AgentRunResultEvent(result=result):
                await self._end(result)

    async def _text(self, said: str) -> None:
        if said:
            await self._ctx.emit(said)

    async def _think(self, said: str) -> None:
        if said and self._thinking:
            await self._ctx.emit(Thinking(said))

    async def _call(self, part: Any) -> None:  # noqa: ANN401  # a ToolCallPart
        self._called.add(part.tool_call_id)
        await self._ctx.emit(ToolCall(part.tool_name, part.args_as_dict(), part.tool_call_id))

    async def _result(self, part: Any) -> None:  # noqa: ANN401  # a ToolReturnPart
        content = to_jsonable_python(part.content)
        if part.outcome in _FAILED:
            await self._ctx.emit(ToolResult(part.tool_call_id, "", str(content)))
        else:
            await self._ctx.emit(ToolResult(part.tool_call_id, content))

    async def _end(self, result: Any) -> None:  # noqa: ANN401  # an AgentRunResult
        await self._usage(result)
        output = result.output
        if isinstance(output, DeferredToolRequests):
            await self._defer(output)
        elif output is not None and not isinstance(output, str):
            await self._ctx.emit(Data(to_jsonable_python(output), "output"))

    async def _usage(self, result: Any) -> None:  # noqa: ANN401  # an AgentRunResult
        used, response = result.usage, result.response
        model, provider = response.model_name or "", response.provider_name or ""
        told = Usage(model, provider, used.input_tokens, used.output_tokens)
        await self._ctx.emit(told)

    async def _defer(self, output: DeferredToolRequests) -> None:
        if output.approvals:
            raise MalformedOutput("a tool that needs approval, which this door can't ask for")
        for part in output.calls:
            if part.tool_call_id not in self._called:
                await self._call(part)
        pending = [part.tool_call_id for part in output.calls]
        await self._ctx.emit(InputRequired(tool_calls=pending))
