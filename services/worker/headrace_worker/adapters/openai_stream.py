"""One answer of a chat model, as it streams in."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from headrace_worker.adapters.extras import needs
from headrace_worker.context import RunContext
from headrace_worker.emission import Emission, Thinking, ToolArguments
from headrace_worker.errors import Retryable
from headrace_worker.signals import Usage

with needs("openai"):
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall

_REASONING = ("reasoning_content", "reasoning")
"""What OpenAI-compatible servers call the piece of reasoning that a delta brings."""


@dataclass(slots=True)
class Call:
    """A tool call as its pieces come."""

    id: str
    """In the log, and in what the model is told again: unlike every other of this run."""
    name: str
    theirs: str
    """The model's own id, which some servers use again."""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """What has come of its arguments' JSON text."""
        return "".join(self.pieces)


class Answering:
    """Says a model's answer while it comes, and keeps what the next request needs of it."""

    def __init__(self, ctx: RunContext, used: set[str], provider: str, *, thinking: bool) -> None:
        """Say it in the run of `ctx`; `used` are the ids of its calls so far, `thinking`: show."""
        self._ctx, self._used, self._provider, self._thinking = ctx, used, provider, thinking
        self._open: dict[int, Call] = {}
        self._texts: list[str] = []
        self.calls: list[Call] = []
        """In the order in which they began."""
        self.refusal = ""
        """Why the model does not want to, if it does not."""
        self.finish = ""
        """Why it stopped, in the API's words."""

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self._texts)

    async def take(self, stream: AsyncIterator[ChatCompletionChunk]) -> None:
        """Take the whole answer.

        Raises:
            Retryable: it broke off.
        """
        async for chunk in stream:
            if chunk.usage is not None:
                used = chunk.usage
                await self._say(
                    Usage(chunk.model, self._provider, used.prompt_tokens, used.completion_tokens)
                )
            for choice in chunk.choices[:1]:
                await self._take(choice.delta)
                self.finish = choice.finish_reason or self.finish
        for call in self.calls:
            await self._say(ToolArguments(call.id, "", call.name, end=True))
        if not self.finish:
            raise Retryable("the model's answer broke off")

    async def _take(self, delta: ChoiceDelta) -> None:
        if self._thinking and (thought := _reasoning(delta)):
            await self._say(Thinking(thought))
        if delta.content:
            self._texts.append(delta.content)
            await self._say(delta.content)
        self.refusal += delta.refusal or ""
        for piece in delta.tool_calls or ():
            await self._call(piece)

    async def _call(self, piece: ChoiceDeltaToolCall) -> None:
        function = piece.function
        name, arguments = (function.name, function.arguments) if function else (None, None)
        call = self._open.get(piece.index)
        # Some servers give every call the index 0; then only a new id tells them apart.
        if call is None or (name and piece.id and piece.id != call.theirs):
            call = self._open[piece.index] = self._begun(piece.id or "", name or "")
        if arguments or not call.pieces:
            call.pieces.append(arguments or "")
            await self._say(ToolArguments(call.id, arguments or "", call.name))

    def _begun(self, theirs: str, name: str) -> Call:
        own = theirs if theirs and theirs not in self._used else self._ctx.voice.mint("call")
        self._used.add(own)
        self.calls.append(Call(own, name, theirs))
        return self.calls[-1]

    async def _say(self, said: Emission) -> None:
        await self._ctx.emit(said)


def _reasoning(delta: ChoiceDelta) -> str:
    extra: dict[str, Any] = delta.model_extra or {}
    found = next((extra[key] for key in _REASONING if extra.get(key)), "")
    return found if isinstance(found, str) else ""
