"""One run of a chat model: answers and tool calls, in turns, until it has no more to say."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import parts
from headrace.events import Json
from headrace.task import FAILED
from headrace_worker.adapters.busy import is_busy, seconds_of
from headrace_worker.adapters.extras import needs
from headrace_worker.adapters.openai_messages import (
    assistant_message,
    frontend_function,
    function_of,
    messages_of,
    tool_message,
)
from headrace_worker.adapters.openai_stream import Answering, Call
from headrace_worker.calling import Answer
from headrace_worker.context import RunContext
from headrace_worker.conversation import Call as ToolCall
from headrace_worker.conversation import Turn
from headrace_worker.emission import InputRequired, Reject, Status, ToolResult
from headrace_worker.errors import Retryable
from headrace_worker.relayed import Outcome
from headrace_worker.tools import Tool

with needs("openai"):
    from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model, and how it is asked."""

    client: AsyncOpenAI
    model: str
    options: Mapping[str, Any]
    show_thinking: bool
    max_turns: int


class ChatRun:
    """One run."""

    def __init__(self, ctx: RunContext, endpoint: Endpoint, tools: Mapping[str, Tool]) -> None:
        """Answer in the run of `ctx`; the model may call `tools` and those of the run's client."""
        self._ctx, self._endpoint, self._tools = ctx, endpoint, tools
        sent = ctx.agui.get("tools") or []
        self._frontend = {tool["name"]: tool for tool in sent if tool["name"] not in tools}
        self._used: set[str] = set()

    async def answer(self, instruction: str, turns: Sequence[Turn]) -> None:
        """Say the model's answer to `turns`.

        Raises:
            Retryable: the endpoint is busy, out of reach or broke off.
        """
        self._used = {call.id for turn in turns for call in turn.calls}
        messages = messages_of("\n\n".join(filter(None, [instruction, self._context()])), turns)
        for _ in range(self._endpoint.max_turns):
            if (said := await self._ask(messages)) is None or not said.calls:
                return
            pending = [call.id for call in said.calls if call.name in self._frontend]
            messages += await self._work(said)
            if pending:
                await self._ctx.emit(InputRequired(tool_calls=pending))
                return
        await self._fail(f"the model has not come to an end in {self._endpoint.max_turns} turns")

    def _context(self) -> str:
        known = self._ctx.agui.get("context") or []
        return "\n".join(f"{item['description']}: {item['value']}" for item in known)

    async def _ask(self, messages: list[Json]) -> Answering | None:
        """Return what the model has said; None: the leg has ended with it."""
        endpoint, ctx = self._endpoint, self._ctx
        host = endpoint.client.base_url.host
        said = Answering(ctx, self._used, host, thinking=endpoint.show_thinking)
        try:
            request = self._request(messages)
            async with await endpoint.client.chat.completions.create(**request) as stream:
                await said.take(stream)
        except ValueError as error:
            raise Retryable("the model's endpoint sent what is no JSON") from error
        except APIError as error:
            await self._fail(_refusal(error))
            ctx.log.warning("the model's endpoint: %s", error)
            return None
        return await self._concluded(said)

    async def _concluded(self, said: Answering) -> Answering | None:
        if said.refusal or said.finish == "content_filter":
            await self._ctx.emit(
                Reject(said.refusal or "The model's provider filtered the answer.")
            )
            return None
        if said.finish == "length":
            await self._ctx.emit(Status("The answer was cut off at the greatest length."))
        return said

    def _request(self, messages: list[Json]) -> Any:  # noqa: ANN401  # the client's own types
        offered = [*map(function_of, self._tools.values())]
        offered += map(frontend_function, self._frontend.values())
        tools = {"tools": offered} if offered else {}
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        model = {"model": self._endpoint.model, "messages": messages}
        return {**model, **usage, **tools, **self._endpoint.options}

    async def _work(self, said: Answering) -> list[Json]:
        """Call the tools that are ours, all at once, and return what the next request needs."""
        ours = [call for call in said.calls if call.name not in self._frontend]
        answers = await asyncio.gather(*map(self._call, ours))
        calls = [ToolCall(call.id, call.name, call.arguments or "{}") for call in said.calls]
        results = [
            tool_message(call.id, answer.content, answer.error)
            for call, answer in zip(ours, answers, strict=True)
        ]
        return [assistant_message(said.text, calls), *results]

    async def _call(self, call: Call) -> Answer:
        tool = self._tools.get(call.name)
        if tool is None:
            answer = Answer(error=f"there is no tool {call.name!r}")
        else:
            answer = await tool.answer(self._ctx, call.arguments)
        await self._ctx.emit(ToolResult(call.id, answer.content, answer.error))
        return answer

    async def _fail(self, reason: str) -> None:
        await self._ctx.emit(Outcome(FAILED, [parts.notice_part(reason, parts.ERROR)]))


def _refusal(error: APIError) -> str:
    """Return what may be told of an error.

    Raises:
        Retryable: it may go better later.
    """
    if isinstance(error, APIConnectionError):
        raise Retryable("the model's endpoint does not answer") from error
    if not isinstance(error, APIStatusError):
        # Said amid a stream: there is no status to go by.
        raise Retryable("the model's endpoint reported an error") from error
    status = error.status_code
    if is_busy(status):
        after = seconds_of(error.response.headers.get("retry-after"))
        raise Retryable(f"the model's endpoint answered {status}", after) from error
    return f"The model's endpoint refused the request ({status})"
