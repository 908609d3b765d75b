"""One streamed response of a chat model."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta, ChoiceDeltaToolCall

from headrace.adapters.call_ids import CallIds
from headrace.adapters.conversation.memory import keep_response
from headrace.adapters.conversation.turns import CallItem, Item, TextItem, Turn, Verbatim
from headrace.adapters.span_messages import call_part, response_of
from headrace.model.events import Json
from headrace.model.usage_counts import cost_of
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Thinking, ToolArguments
from headrace.sdk.errors import Retryable
from headrace.sdk.signals import Usage

_NAMES = frozenset({"id", "type", "format", "name", "role"})
"""Fields whose strings are always complete; all other strings come in pieces."""


class Fields:
    """Assembles the fields of a streamed message."""

    def __init__(self) -> None:
        """Start without fields."""
        self.found: Json = {}

    def add(self, pieces: Mapping[str, Any] | None) -> None:
        """Add the fields of one delta."""
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
    """Return the list extended by `pieces`; a piece with a known index extends that item."""
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


FORMAT = "openai.chat"
"""Format of the responses that are kept verbatim: the fields of the assistant's message except its
text and its calls, and under ``tool_calls`` those of each call, by id."""

_REASONING = ("reasoning_content", "reasoning")
"""Names that OpenAI-compatible servers use for a delta's reasoning."""


@dataclass(slots=True)
class StreamedCall:
    """A tool call whose pieces arrive one by one."""

    id: str
    """Unique id in the log and in later requests."""
    theirs: str
    """The model's own id, which some servers reuse or omit."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    fields: Fields = field(default_factory=Fields)

    @property
    def arguments(self) -> str:
        """The JSON text of its arguments so far."""
        return "".join(self.pieces)

    def item(self) -> CallItem:
        """Return the call with its arguments so far."""
        return CallItem.of_text(self.id, self.name or "unnamed", self.arguments)


class ResponseEmitter:
    """Emits a model's response as it streams, and keeps what the next request needs of it."""

    def __init__(self, ctx: RunContext, used: set[str], provider: str, *, thinking: bool) -> None:
        """Emit in the run of `ctx`.

        Args:
            ctx: The run's context.
            used: Ids of the conversation's calls so far.
            provider: The provider's name, for usage.
            thinking: Whether to emit reasoning.
        """
        self._ctx, self._provider, self._thinking = ctx, provider, thinking
        self._ids = CallIds(ctx, used)
        self._open: dict[int | None, list[StreamedCall]] = {}
        self._texts: list[str] = []
        self._fields = Fields()
        self._usage: tuple[str, CompletionUsage] | None = None
        self.calls: list[StreamedCall] = []
        """The calls, in the order in which they started."""
        self.refusal = ""
        """The model's refusal; empty if it did not refuse."""
        self.finish = ""
        """The API's reason for which the response ended."""

    async def relay(self, stream: AsyncIterator[ChatCompletionChunk]) -> None:
        """Emit the whole response, and save what later requests need of it.

        Raises:
            Retryable: The response broke off.
        """
        async for chunk in stream:
            if chunk.usage is not None:
                # Some servers send running totals with each chunk: the last one counts.
                self._usage = chunk.model, chunk.usage
            choices: Sequence[Any] = chunk.choices or ()  # Some servers send null, also for deltas.
            for choice in choices[:1]:
                if choice.delta is not None:
                    await self._relay(choice.delta)
                self.finish = choice.finish_reason or self.finish
        await self._emit_usage()
        if not self.finish:
            raise Retryable("the model's answer was cut off")
        ends = [ToolArguments(c.id, "", c.name or "unnamed", end=True) for c in self.calls]
        for end in ends[:-1]:
            await self._ctx.emit(end)
        verbatim = self._verbatim()
        if ends or verbatim is not None:
            await keep_response(self._ctx, verbatim, ends[-1] if ends else None)

    def attributes(self) -> dict[str, str | int | list[str]]:
        """Return what is known of the response, as OpenTelemetry names it."""
        found: dict[str, str | int | list[str]] = {}
        if self.finish:
            found["gen_ai.response.finish_reasons"] = [self.finish]
        if self._usage is not None:
            model, used = self._usage
            found["gen_ai.response.model"] = model or ""
            found["gen_ai.usage.input_tokens"] = used.prompt_tokens or 0
            found["gen_ai.usage.output_tokens"] = used.completion_tokens or 0
        return found

    def messages(self) -> list[Json]:
        """Return what is known of the response, as a message in a span; empty if nothing is."""
        text = "".join(self._texts) or self.refusal
        calls = [call_part(call.id, call.name, call.arguments) for call in self.calls]
        return response_of(text, calls, self.finish) if text or calls or self.finish else []

    def turn(self) -> Turn:
        """Return the response as a turn of the conversation."""
        text = "".join(self._texts)
        items: list[Item] = [TextItem(text)] if text else []
        items += [call.item() for call in self.calls]
        run = self._ctx.run
        return Turn("assistant", "", self._ctx.task, run, items=items, verbatim=self._verbatim())

    def _verbatim(self) -> Verbatim | None:
        kept: Json = dict(self._fields.found)
        calls = {call.id: call.fields.found for call in self.calls if call.fields.found}
        if calls:
            kept["tool_calls"] = calls
        return Verbatim(FORMAT, kept) if kept else None

    async def _relay(self, delta: ChoiceDelta) -> None:
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
        open_calls = self._open.setdefault(piece.index, [])
        call = _continued(open_calls, piece.id or "", name or "", arguments or "")
        if call is None:
            call = self._start_call(piece.id or "")
            open_calls.append(call)
        call.theirs = call.theirs or piece.id or ""
        call.fields.add(piece.model_extra)
        if function is not None and function.model_extra:
            call.fields.add({"function": function.model_extra})
        begins = not call.name and bool(name)
        call.name = call.name or name or ""
        if arguments:
            call.pieces.append(arguments)
        if call.name and (arguments or begins):
            delta = call.arguments if begins else arguments or ""
            await self._ctx.emit(ToolArguments(call.id, delta, call.name))

    def _start_call(self, theirs: str) -> StreamedCall:
        self.calls.append(StreamedCall(self._ids.add(theirs), theirs))
        return self.calls[-1]

    async def _emit_usage(self) -> None:
        if self._usage is None:
            return
        model, used = self._usage
        given, made = used.prompt_tokens_details, used.completion_tokens_details
        usage = Usage(
            model or "",
            self._provider,
            used.prompt_tokens or 0,
            used.completion_tokens or 0,
            reasoning_tokens=(made and made.reasoning_tokens) or 0,
            cached_input_tokens=(given and given.cached_tokens) or 0,
            cost=_cost(used),
        )
        await self._ctx.emit(usage)


def _continued(
    calls: Sequence[StreamedCall], theirs: str, name: str, arguments: str
) -> StreamedCall | None:
    """Return the call at an index that a piece continues; None if it starts a new one.

    Some servers give every call the index 0. Then an id tells whose piece it is; a new one with a
    name starts a call, unless it is the late id of a call that goes on. Without ids, or with one
    for all calls, another name starts a call, and so does a name after complete arguments.
    """
    same = [call for call in calls if theirs and call.theirs == theirs]
    last = next(iter(same[-1:] or calls[-1:]), None)
    if last is None or not (name or theirs):
        return last
    if theirs and last.theirs and theirs != last.theirs:
        return None if name else last
    is_new = bool(name and last.name and name != last.name)
    is_over = bool(last.pieces) and last.item().is_json
    is_new |= bool(name) and is_over and bool(arguments.strip() or not last.theirs)
    return None if is_new else last


def _cost(used: CompletionUsage) -> float:
    """Return the cost that some providers report with the usage; 0: none is reported."""
    return cost_of((used.model_extra or {}).get("cost"))


def _reasoning(delta: ChoiceDelta) -> str:
    extra: dict[str, Any] = delta.model_extra or {}
    found = next((extra[key] for key in _REASONING if extra.get(key)), "")
    return found if isinstance(found, str) else ""
