"""One run of a chat model: responses and tool calls in turns until the final answer."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI
from opentelemetry.trace import SpanKind

from headrace import tracing
from headrace.adapters.busy import is_busy, pause_of
from headrace.adapters.client_tools import client_tools
from headrace.adapters.conversation.memory import keep_result
from headrace.adapters.conversation.turns import CallItem, ResultItem, Turn, answered, open_calls
from headrace.adapters.model_spans import note_input, note_output
from headrace.adapters.openai.content import ContentNames, content_of
from headrace.adapters.openai.stream import FORMAT, ResponseEmitter
from headrace.adapters.questions.approvals import (
    ToolAnswer,
    ask,
    interrupt_for,
    interrupts_before,
    tool_answers,
)
from headrace.adapters.span_messages import of_chat
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Outcome, Reject, Status, ToolResult
from headrace.sdk.errors import Retryable
from headrace.sdk.tool_call import ToolOutput, ToolQuestion
from headrace.sdk.tools import AskingTool, Tool

_PIECES = ContentNames(
    text=lambda text: {"type": "text", "text": text},
    image=lambda url: {"type": "image_url", "image_url": {"url": url}},
    pdf=lambda name, url: {"type": "file", "file": {"filename": name, "file_data": url}},
)


def messages_of(instruction: str, turns: Iterable[Turn]) -> list[Json]:
    """Return the messages of a request."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, *map(_message, turns)]


def function_of(tool: Tool) -> Json:
    """Return a tool in the format of a request."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _message(turn: Turn) -> Json:
    match turn.role:
        case "assistant":
            return _assistant(turn)
        case "tool" if turn.result is not None:
            return _tool(turn.result)
        case "user":
            return {"role": "user", "content": content_of(turn.parts, _PIECES)}
        case _:
            return {"role": turn.role, "content": turn.text}


def _assistant(turn: Turn) -> Json:
    """Return the model's response, with all fields that it had."""
    kept = turn.verbatim.response if turn.verbatim and turn.verbatim.format == FORMAT else {}
    more = {key: value for key, value in kept.items() if key != "tool_calls"}
    results = [item.text for item in turn.items if isinstance(item, ResultItem)]
    text = "\n".join(filter(None, [turn.text, *results]))
    # Null means calls instead of an answer: servers refuse it without calls.
    content = text or (None if turn.calls else "")
    message: Json = {**more, "role": "assistant", "content": content}
    if turn.calls:
        fields = kept.get("tool_calls") or {}
        message["tool_calls"] = [_call(call, fields.get(call.id) or {}) for call in turn.calls]
    return message


def _call(call: CallItem, fields: Json) -> Json:
    function = {**fields.get("function", {}), "name": call.name, "arguments": call.arguments_json}
    return {**fields, "id": call.id, "type": "function", "function": function}


def _tool(result: ToolResultPart) -> Json:
    text = f"Error: {result.error}" if result.error else json_text.as_text(result.content)
    return {"role": "tool", "tool_call_id": result.id, "content": text}


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model, and the settings of its requests."""

    client: AsyncOpenAI
    model: str
    options: Mapping[str, Any]
    show_thinking: bool
    max_turns: int


class ChatRun:
    """One run of a chat model."""

    def __init__(self, ctx: RunContext, endpoint: ModelEndpoint, tools: Mapping[str, Tool]) -> None:
        """Run in `ctx`; the model may call `tools` and those of the run's client."""
        self._ctx, self._endpoint, self._tools = ctx, endpoint, tools
        sent = {tool["name"]: tool for tool in client_tools(ctx)}
        self._client_tools = {name: tool for name, tool in sent.items() if name not in tools}
        self._used: set[str] = set()
        self._answers: Mapping[str, ToolAnswer] = {}

    async def converse(self, instruction: str, turns: Sequence[Turn]) -> None:
        """Emit the model's answer to `turns`, or continue what an earlier attempt started.

        Raises:
            Retryable: The endpoint is busy or unreachable, or its answer broke off.
        """
        conversation = list(turns)
        instructions = "\n\n".join(filter(None, [instruction, self._context()]))
        self._used = {call.id for turn in conversation for call in turn.calls}
        responses = sum(self._is_own(turn) for turn in conversation)
        if (
            conversation
            and self._is_own(conversation[-1])
            and conversation[-1].is_complete
            and not conversation[-1].calls
        ):
            return
        left = open_calls(conversation)
        if not responses:
            left = await self._asked(left)
        while not await self._work(conversation, left):
            if responses >= self._endpoint.max_turns:
                most = self._endpoint.max_turns
                await self._ctx.emit(
                    Outcome.because(f"the model reached the limit of {most} turns")
                )
                return
            response = await self._ask(messages_of(instructions, answered(conversation)))
            if response is None or not response.calls:
                return
            conversation.append(response)
            left, responses = response.calls, responses + 1

    def _is_own(self, turn: Turn) -> bool:
        """Return whether the turn is a response of this run."""
        ctx = self._ctx
        return turn.role == "assistant" and (turn.task, turn.run) == (ctx.task, ctx.run)

    async def _asked(self, calls: Sequence[CallItem]) -> list[CallItem]:
        """Return those of the open `calls` that asked the user, whom this run's input answers."""
        if calls:
            self._answers = tool_answers(self._ctx.parts, await interrupts_before(self._ctx))
        return [call for call in calls if call.id in self._answers]

    def _context(self) -> str:
        known = self._ctx.agui.get("context") or []
        return "\n".join(f"{item['description']}: {item['value']}" for item in known)

    async def _ask(self, messages: list[Json]) -> Turn | None:
        """Return the model's response; None if it ended the run."""
        endpoint, ctx = self._endpoint, self._ctx
        host = endpoint.client.base_url.host
        answer = ResponseEmitter(ctx, self._used, host, thinking=endpoint.show_thinking)
        try:
            request = self._request(messages)
            with self._call_span(messages, answer):
                async with await endpoint.client.chat.completions.create(**request) as stream:
                    await answer.relay(stream)
        except ValueError as error:
            raise Retryable("the model's endpoint sent invalid JSON") from error
        except APIError as error:
            await ctx.emit(Outcome.because(refusal_of(error)))
            ctx.log.warning("the model's endpoint: %s", error)
            return None
        if answer.refusal or answer.finish == "content_filter":
            await ctx.emit(Reject(answer.refusal or "The model's provider filtered the answer."))
            return None
        if answer.finish == "length":
            await ctx.emit(Status("The answer was cut off at the maximum length."))
        return answer.turn()

    @contextmanager
    def _call_span(self, messages: list[Json], answer: ResponseEmitter) -> Iterator[None]:
        """Make the span of one call of the model the current one in the block."""
        model, url = self._endpoint.model, self._endpoint.client.base_url
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",  # the API, whoever serves it
            "gen_ai.request.model": model,
            "server.address": url.host,
        }
        span = tracing.start_span(f"chat {model}", SpanKind.CLIENT, None, attributes)
        note_input(span, lambda: of_chat(messages))
        with tracing.CurrentSpan(span):
            try:
                yield
            finally:
                span.set_attributes(answer.attributes())
                note_output(span, answer.messages)

    def _request(self, messages: list[Json]) -> Any:  # noqa: ANN401  # the client's own types
        functions = [*map(function_of, self._tools.values()), *self._client_tools.values()]
        offered = [{"type": "function", "function": function} for function in functions]
        tools = {"tools": offered} if offered else {}
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        model = {"model": self._endpoint.model, "messages": messages}
        return {**model, **usage, **tools, **self._endpoint.options}

    async def _work(self, conversation: list[Turn], calls: Sequence[CallItem]) -> bool:
        """Call the worker's own tools concurrently, and add their results to `conversation`.

        Return True if the run ends because its client executes the other calls, or because a tool
        asks the user. If one tool asks for another attempt, the results of the others are kept.
        """
        asked = list[Json]()
        pending = [call.id for call in calls if self._is_pending(call)]
        ours = [call for call in calls if call.id not in pending]
        done = await asyncio.gather(*map(self._call, ours), return_exceptions=True)
        for call, result in zip(ours, done, strict=True):
            if isinstance(result, BaseException):
                raise result
            if isinstance(result, ToolQuestion):
                asked.append(interrupt_for(call, result))
                continue
            run = self._ctx.run
            conversation.append(
                Turn("tool", f"{result.id}-result", self._ctx.task, run, result=result)
            )
        if pending or asked:
            await ask(self._ctx, asked, pending)
        return bool(pending or asked)

    def _is_pending(self, call: CallItem) -> bool:
        """Return whether the client executes the call; cut-off arguments are not sent to it."""
        return call.name in self._client_tools and call.is_json

    async def _call(self, call: CallItem) -> ToolResultPart | ToolQuestion:
        tool, given = self._tools.get(call.name), self._answers.get(call.id)
        if given is not None and isinstance(tool, AskingTool):
            answer = await tool.answer(self._ctx, call.arguments_json, *given)
        elif tool is not None:
            answer = await tool.call(self._ctx, call.arguments_json)
        elif call.name in self._client_tools:
            answer = ToolOutput(error="the arguments are not JSON: they were cut off")
        else:
            answer = ToolOutput(error=f"tool {call.name!r} does not exist")
        if answer.question is not None:
            return answer.question
        await keep_result(self._ctx, ToolResult(call.id, answer.content, answer.error))
        return ToolResultPart(call.id, answer.content, answer.error, bool(answer.error))


def refusal_of(error: APIError) -> str:
    """Return a description of the error for the client.

    Raises:
        Retryable: The endpoint is busy, unreachable, or failed within a stream.
    """
    if isinstance(error, APIConnectionError):
        raise Retryable("the model's endpoint does not respond") from error
    if not isinstance(error, APIStatusError):
        # The error came within a stream, without a status.
        raise Retryable("the model's endpoint reported an error") from error
    status = error.status_code
    if is_busy(status):
        after = pause_of(error.response.headers)
        raise Retryable(f"the model's endpoint answered {status}", after) from error
    return f"The model's endpoint refused the request ({status})"
