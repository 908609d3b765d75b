"""The chat completions API's form of a run: one object, or chunks.

It has no form for what an agent's own tools do, and no numbers: a client that loses its connection
sends its conversation again.
"""

from collections.abc import Sequence

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.task import FAILED, REJECTED
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.openai.errors import error_body
from headrace_gateway.protocols.openai.response import seconds
from headrace_gateway.protocols.openai.response_output import (
    ItemChange,
    ItemStep,
    OutputItem,
    ResponseOutput,
)
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer

_DONE = b"data: [DONE]\n\n"
_BETWEEN = "\n\n"
"""Between two messages of the agent, which are one here."""

_FAILURE = 502


def completion(output: ResponseOutput) -> Json:
    """Return the completion of a run that is over."""
    kept = output.kept
    thoughts = _BETWEEN.join(item.text for item in kept if item.kind == "reasoning")
    calls = [_call(item) for item in kept if item.kind == "function_call"]
    text = text_of_completion(output)
    content = text or (None if calls else "")
    message: Json = {"role": "assistant", "content": content, "refusal": None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": thoughts} if thoughts else {}
    ending = {"finish_reason": _finish(output), "logprobs": None}
    choice = {"index": 0, "message": message, **ending}
    usage = usage_of(output)
    return _head(output, "chat.completion") | {
        "choices": [choice],
        **({"usage": usage} if usage else {}),
    }


def text_of_completion(output: ResponseOutput) -> str:
    """Return all that the agent has said to the user."""
    return _BETWEEN.join(item.text for item in output.kept if item.kind == "message")


def has_failed(output: ResponseOutput) -> bool:
    """Return whether the run has failed."""
    return output.state in (FAILED, REJECTED)


def usage_of(output: ResponseOutput) -> Json | None:
    """Return the tokens that the run has used; None if its agent has not stated them."""
    if not output.usage:
        return None
    used, made = output.tokens("inputTokens"), output.tokens("outputTokens")
    return {
        "prompt_tokens": used,
        "completion_tokens": made,
        "total_tokens": output.tokens("totalTokens") or used + made,
        "prompt_tokens_details": {"cached_tokens": output.tokens("cachedInputTokens")},
        "completion_tokens_details": {"reasoning_tokens": output.tokens("reasoningTokens")},
    }


def _head(output: ResponseOutput, kind: str) -> Json:
    place = output.place
    created = seconds(output.begun)
    return {"id": place.completion, "object": kind, "created": created, "model": place.agent}


def _finish(output: ResponseOutput) -> str:
    calls = any(item.kind == "function_call" for item in output.kept)
    return "tool_calls" if calls else "stop"


def _call(item: OutputItem) -> Json:
    function = {"name": item.name, "arguments": item.text}
    return {"id": item.call, "type": "function", "function": function}


class ChunkRenderer(Renderer):
    """Renders one completion, in chunks, for one client."""

    __slots__ = ("_last", "_output", "_with_usage")

    def __init__(self, output: ResponseOutput, *, with_usage: bool) -> None:
        """Render all of `output`; the last chunk has the usage if the client wants it."""
        self._output, self._with_usage = output, with_usage
        self._last: dict[str, OutputItem] = {}

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Render the next chunks."""
        frames: list[bytes] = []
        for block in blocks:
            changes = self._output.read(block.entry)
            if self._output.has_just_begun:
                frames.append(self._chunk({"role": "assistant", "content": ""}))
            deltas = filter(None, map(self._delta, changes))
            frames += map(self._chunk, deltas)
        return frames

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the run decides, not the task
        """Return whether the completion has ended."""
        return self._output.over

    def ending(self) -> Messages:
        """Return the end of the stream."""
        output = self._output
        if not output.over:
            return (_failure("the log ended before the run"),)
        if has_failed(output):
            return (_failure(output.error),)
        # Not before: no chunk takes back a call of an attempt that a new one replaces.
        calls = [_call(item) for item in output.kept if item.kind == "function_call"]
        numbered = [{"index": number, **call} for number, call in enumerate(calls)]
        frames = [self._chunk({"tool_calls": numbered})] if numbered else []
        frames.append(self._chunk({}, _finish(output)))
        if self._with_usage:
            head = _head(output, "chat.completion.chunk")
            frames.append(_frame(head | {"choices": [], "usage": usage_of(output)}))
        return (*frames, _DONE)

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error."""
        return () if self._output.over else (_failure(why.reason),)

    def _delta(self, change: ItemChange) -> Json | None:
        item = change.item
        match item.kind, change.step:
            case "message", ItemStep.GREW:
                return {"content": self._apart(item, change.delta)}
            case "reasoning", ItemStep.GREW:
                return {"reasoning_content": self._apart(item, change.delta)}
        return None

    def _apart(self, item: OutputItem, delta: str) -> str:
        """Return a piece of text, apart from the text of another item before it."""
        last, self._last[item.kind] = self._last.get(item.kind), item
        return delta if last in (None, item) else f"{_BETWEEN}{delta}"

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _frame(_head(self._output, "chat.completion.chunk") | {"choices": [choice]})


def _frame(content: Json) -> bytes:
    return b"data: %b\n\n" % json_text.encode(content)


def _failure(message: str) -> bytes:
    return _frame(error_body(_FAILURE, "agent_failed", message))
