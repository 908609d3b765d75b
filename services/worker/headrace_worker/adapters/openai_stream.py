"""One response of a chat model, as it streams in."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Thinking, ToolArguments
from headrace.sdk.errors import Retryable
from headrace.sdk.signals import Usage
from headrace_worker.adapters.call_ids import own_call_id
from headrace_worker.adapters.extras import needs
from headrace_worker.conversation import CallItem, Item, Turn, Verbatim, Words
from headrace_worker.remembering import keep_response

_NAMES = frozenset({"id", "type", "format", "name", "role"})
"""Of strings that come whole, however often: every other string comes in pieces."""


class Fields:
    """Puts the fields of a streamed message together."""

    def __init__(self) -> None:
        """Begin without any."""
        self.found: Json = {}

    def add(self, pieces: Mapping[str, Any] | None) -> None:
        """Take what one delta brings of them."""
        for name, piece in (pieces or {}).items():
            if piece is not None:
                self.found[name] = _joined(name, self.found.get(name), piece)


def _joined(name: str, known: Any, piece: Any) -> Any:  # noqa: ANN401  # any JSON
    match known, piece:
        case str(), str() if name not in _NAMES:
            return known + piece
        case dict(), dict():
            merged = Fields()
            merged.found = dict(known)
            merged.add(piece)
            return merged.found
        case list(), list():
            return _extended(known, piece)
    return piece


def _extended(known: list[Any], pieces: list[Any]) -> list[Any]:
    """Return the list with `pieces` behind it; those that name an item's index go on with it."""
    items = list(known)
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        at = next((n for n, item in enumerate(items) if _is_at(item, index)), None)
        if at is None:
            items.append(piece)
        else:
            items[at] = _joined("", items[at], piece)
    return items


def _is_at(item: Any, index: Any) -> bool:  # noqa: ANN401  # any JSON
    return index is not None and isinstance(item, dict) and item.get("index") == index


with needs("openai"):
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall

FORMAT = "openai.chat"
"""Of the responses that are kept verbatim: fields of the assistant's message beside its text and
its calls, and under ``tool_calls`` those of each call, by id."""

_REASONING = ("reasoning_content", "reasoning")
"""What OpenAI-compatible servers call the piece of reasoning that a delta brings."""


@dataclass(slots=True)
class StreamedCall:
    """A tool call as its pieces come."""

    id: str
    """In the log, and in what the model is told again: unlike every other of the conversation."""
    theirs: str
    """The model's own id, which some servers use again, and some leave out."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    fields: Fields = field(default_factory=Fields)

    @property
    def arguments(self) -> str:
        """What has come of its arguments' JSON text."""
        return "".join(self.pieces)

    def whole(self) -> CallItem:
        """Return the call as far as it has come."""
        return CallItem.of_text(self.id, self.name or "unnamed", self.arguments)


class Answering:
    """Says a model's response while it comes, and keeps what the next request needs of it."""

    def __init__(self, ctx: RunContext, used: set[str], provider: str, *, thinking: bool) -> None:
        """Say it in the run of `ctx`; `used` are the ids of its calls so far, `thinking`: show."""
        self._ctx, self._used, self._provider, self._thinking = ctx, used, provider, thinking
        self._open: dict[int | None, StreamedCall] = {}
        self._texts: list[str] = []
        self._fields = Fields()
        self._usage: tuple[str, CompletionUsage] | None = None
        self.calls: list[StreamedCall] = []
        """In the order in which they began."""
        self.refusal = ""
        """Why the model does not want to, if it does not."""
        self.finish = ""
        """Why it stopped, in the API's words."""

    async def take(self, stream: AsyncIterator[ChatCompletionChunk]) -> None:
        """Take the whole response, and save it where somebody needs it again.

        Raises:
            Retryable: it broke off.
        """
        async for chunk in stream:
            if chunk.usage is not None:
                # Some servers count up in each chunk: the last count is the response's.
                self._usage = chunk.model, chunk.usage
            choices: Sequence[Any] = chunk.choices or ()  # Some servers send null, for deltas too.
            for choice in choices[:1]:
                if choice.delta is not None:
                    await self._take(choice.delta)
                self.finish = choice.finish_reason or self.finish
        await self._say_usage()
        if not self.finish:
            raise Retryable("the model's answer was cut off")
        ends = [ToolArguments(c.id, "", c.name or "unnamed", end=True) for c in self.calls]
        for end in ends[:-1]:
            await self._ctx.emit(end)
        verbatim = self._verbatim()
        if ends or verbatim is not None:
            await keep_response(self._ctx, verbatim, ends[-1] if ends else None)

    def turn(self) -> Turn:
        """Return the response as a turn of the conversation."""
        text = "".join(self._texts)
        items: list[Item] = [Words(text)] if text else []
        items += [call.whole() for call in self.calls]
        run = self._ctx.run
        return Turn("assistant", "", self._ctx.task, run, items=items, verbatim=self._verbatim())

    def _verbatim(self) -> Verbatim | None:
        kept: Json = dict(self._fields.found)
        calls = {call.id: call.fields.found for call in self.calls if call.fields.found}
        if calls:
            kept["tool_calls"] = calls
        return Verbatim(FORMAT, kept) if kept else None

    async def _take(self, delta: ChoiceDelta) -> None:
        self._fields.add(delta.model_extra)
        if self._thinking and (thought := _reasoning(delta)):
            await self._ctx.emit(Thinking(thought))
        if delta.content:
            self._texts.append(delta.content)
            await self._ctx.emit(delta.content)
        self.refusal += delta.refusal or ""
        for piece in delta.tool_calls or ():
            await self._call(piece)

    async def _call(self, piece: ChoiceDeltaToolCall) -> None:
        function = piece.function
        name, arguments = (function.name, function.arguments) if function else (None, None)
        call = self._open.get(piece.index)
        if call is None or _begins(call, piece.id, name):
            call = self._open[piece.index] = self._begun(piece.id or "")
        call.fields.add(piece.model_extra)
        if function is not None and function.model_extra:
            call.fields.add({"function": function.model_extra})
        begins = not call.name and bool(name)
        call.name = call.name or name or ""
        if arguments:
            call.pieces.append(arguments)
        if call.name and (arguments or begins):
            said = call.arguments if begins else arguments or ""
            await self._ctx.emit(ToolArguments(call.id, said, call.name))

    def _begun(self, theirs: str) -> StreamedCall:
        self.calls.append(StreamedCall(own_call_id(self._ctx, self._used, theirs), theirs))
        return self.calls[-1]

    async def _say_usage(self) -> None:
        if self._usage is None:
            return
        model, used = self._usage
        given, made = used.prompt_tokens_details, used.completion_tokens_details
        said = Usage(
            model or "",
            self._provider,
            used.prompt_tokens or 0,
            used.completion_tokens or 0,
            reasoning_tokens=(made and made.reasoning_tokens) or 0,
            cached_input_tokens=(given and given.cached_tokens) or 0,
        )
        await self._ctx.emit(said)


def _begins(call: StreamedCall, theirs: str | None, name: str | None) -> bool:
    """Tell whether a piece begins another call than `call`, which has the same index.

    Some servers give every call the index 0: then a new id tells them apart or, where calls have
    none, a name behind arguments that are complete.
    """
    if not name:
        return False
    if theirs:
        return theirs != call.theirs
    return not call.theirs and bool(call.pieces) and call.whole().is_json


def _reasoning(delta: ChoiceDelta) -> str:
    extra: dict[str, Any] = delta.model_extra or {}
    found = next((extra[key] for key in _REASONING if extra.get(key)), "")
    return found if isinstance(found, str) else ""
