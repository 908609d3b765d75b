"""Items that are open in a stream: content blocks, thinking blocks and tool calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count

from headrace.model import json_text, parts
from headrace.model.events import Json

type Emit = Callable[..., None]
"""Emits an event by name, with the fields of its payload."""

CONTENT, THINKING = "content_block", "thinking"
_IDS = {CONTENT: "blockId", THINKING: "thinkingId"}


class OpenBlocks:
    """Opens each block with its first piece and closes blocks in order."""

    def __init__(self, emit: Emit) -> None:
        """Start with no open blocks."""
        self._emit = emit
        self._open: dict[tuple[str, str], None] = {}
        self._indices = set[int]()

    def renumber(self) -> None:
        """Start a message: number its blocks from 0."""
        self._indices = set[int]()

    def emit(self, part: Json, block: str, *, is_whole: bool = False) -> None:
        """Emit a piece of a content block or, for a thinking part, of a thinking block.

        `is_whole`: the block consists of this piece.
        """
        is_thought = parts.is_thinking(part)
        family, shown = THINKING if is_thought else CONTENT, _shown(part)
        named = {_IDS[family]: block}
        if (family, block) not in self._open:
            self._open[family, block] = None
            index = self._index(part, is_thought=is_thought)
            more = _title(part) if is_thought else _described(part) | {"index": index}
            self._emit(f"{family}_start", **named, **more)
        if shown:
            self._emit(f"{family}_delta", **named, delta=shown)
        if is_whole or parts.is_block_end(part):
            self.close(family, block, signature=parts.encrypted_value(part) if is_thought else "")

    def close(self, family: str, block: str, *, signature: str = "") -> None:
        """Close a block if it is open."""
        if (family, block) in self._open:
            del self._open[family, block]
            self._emit(f"{family}_stop", **{_IDS[family]: block}, signature=signature)

    def close_all(self) -> None:
        """Close all open blocks, oldest first."""
        for family, block in list(self._open):
            self.close(family, block)

    def _index(self, part: Json, *, is_thought: bool) -> int:
        """Return the index that the part states, or the next free one; indices are unique.

        Thinking without a stated index uses none, because its events carry no index.
        """
        stated = parts.block_index(part)
        if parts.metadata_of(part, parts.BLOCK_INDEX) is None:
            if is_thought:
                return 0
            stated = max(self._indices, default=-1) + 1
        elif stated in self._indices:
            stated = max(self._indices) + 1
        self._indices.add(stated)
        return stated


@dataclass(slots=True)
class _OpenCall:
    """A call without a result."""

    name: str
    """Its id for clients."""
    generation: int
    """The event that began it."""
    arguments: list[str] = field(default_factory=list)
    """The pieces that were streamed."""
    is_whole: bool = False
    """Whether its arguments are complete."""


class OpenToolCalls:
    """Emits tool calls: start, argument pieces and results.

    Of calls of one id that are open at a time, each but the first gets an id of its own. A result
    belongs to the oldest of them.
    """

    def __init__(self, emit: Emit) -> None:
        """Start with no calls."""
        self._emit = emit
        self._open: dict[str, list[_OpenCall]] = {}
        self._generation = 0

    def discard(self, after: int) -> None:
        """Drop the calls that began after generation `after`, which a new attempt discards."""
        for calls in self._open.values():
            calls[:] = [call for call in calls if call.generation <= after]

    def emit(self, part: Json, name: str, generation: int) -> None:
        """Emit the events of a tool part; `name` identifies a call that has no id."""
        self._generation = generation
        if (result := parts.tool_result(part)) is not None:
            self._stop(result)
        elif parts.is_partial_tool_call(part):
            self._piece(part, parts.tool_call_id(part) or name)
        elif (call := parts.tool_call(part)) is not None:
            self._complete_call(call, call.id or name)

    def _complete_call(self, call: parts.ToolCallPart, call_id: str) -> None:
        started = self._streamed(call_id)
        if started is None:
            started = self._begin(call_id, call.name, input=parts.parsed_arguments(call.arguments))
        started.is_whole = True

    def _piece(self, part: Json, call_id: str) -> None:
        call = self._streamed(call_id) or self._begin(call_id, parts.tool_name(part))
        if part["text"]:
            call.arguments.append(part["text"])
            self._emit("tool_call_delta", toolCallId=call.name, partialInput=part["text"])
        call.is_whole = parts.is_block_end(part)

    def _streamed(self, call_id: str) -> _OpenCall | None:
        """Return the call with that id whose arguments are being streamed."""
        calls = self._open.get(call_id)
        return calls[-1] if calls and not calls[-1].is_whole else None

    def _begin(self, call_id: str, tool: str, **more: object) -> _OpenCall:
        calls = self._open.setdefault(call_id, [])
        taken = {call.name for others in self._open.values() for call in others}
        names = chain([call_id], (f"{call_id}_{number}" for number in count(2)))
        call = _OpenCall(next(name for name in names if name not in taken), self._generation)
        calls.append(call)
        self._emit("tool_call_start", toolCallId=call.name, toolName=tool, **more)
        return call

    def _stop(self, result: parts.ToolResultPart) -> None:
        calls = self._open.get(result.id) or [_OpenCall(result.id, self._generation)]
        call = calls.pop(0)
        if not calls:
            self._open.pop(result.id, None)
        streamed = "".join(call.arguments)
        self._emit(
            "tool_call_stop",
            toolCallId=call.name,
            finalInput=parts.parsed_arguments(streamed) if streamed else None,
            result=json_text.as_text(result.content),
            error=result.error,
            isError=result.is_error,
        )


def _described(part: Json) -> Json:
    """Return a content block's type, and a file's name and media type."""
    return {
        "blockType": parts.block_type(part) or _kind(part),
        "filename": part.get("filename"),
        "mediaType": part.get("mediaType"),
    }


def _kind(part: Json) -> str:
    if "text" in part or "data" in part:
        return "text" if "text" in part else "data"
    return "image" if str(part.get("mediaType", "")).startswith("image/") else "file"


def _shown(part: Json) -> str:
    """Return a part's text, its data as JSON, or its file's URL (``data:`` for inline content)."""
    if "text" in part:
        return str(part["text"])
    if "data" in part:
        return json_text.text(part["data"])
    if raw := part.get("raw"):
        return f"data:{part.get('mediaType') or 'application/octet-stream'};base64,{raw}"
    return str(part.get("url") or "")


def _title(part: Json) -> Json:
    return {"title": parts.metadata_of(part, "agui_title")}
