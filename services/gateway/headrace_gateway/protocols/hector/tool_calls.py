"""Tool calls in the form that Hector's clients read: complete, and nested two levels deep."""

from collections.abc import Sequence
from dataclasses import replace

from headrace.model import json_text, parts
from headrace.model.entry import Entry
from headrace.model.events import DISCARDED_AFTER, Json
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer

_MARKS = tuple(f'"{key}"'.encode() for key in (parts.PARTIAL, DISCARDED_AFTER))
"""Keys of an entry that starts or discards a call's arguments."""


class StreamedArguments:
    """Joins the argument pieces of tool calls."""

    def __init__(self) -> None:
        """Start with no pieces."""
        self._pieces: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Whether a call has started and is not complete."""
        return bool(self._pieces)

    def discard(self) -> None:
        """Drop the incomplete calls of an attempt; the next attempt starts over."""
        self._pieces.clear()

    def whole(self, part: Json) -> list[Json]:
        """Return what `part` completes: itself, or the call whose last piece it is.

        A result completes a call whose last piece was never marked.
        """
        call = parts.tool_call_id(part)
        if not parts.is_partial_tool_call(part):
            return [*(self._pop_call(call) if parts.tool_result(part) else []), part]
        self._pieces.setdefault(call, []).append(part.get("text", ""))
        self._names[call] = parts.tool_name(part) or self._names.get(call, "")
        return self._pop_call(call) if parts.is_block_end(part) else []

    def rest(self) -> list[Json]:
        """Return the calls that were never completed."""
        return [one for call in list(self._pieces) for one in self._pop_call(call)]

    def _pop_call(self, call: str) -> list[Json]:
        if (pieces := self._pieces.pop(call, None)) is None:
            return []
        return [
            parts.tool_call_part(
                self._names.pop(call), parts.parsed_arguments("".join(pieces)), call
            )
        ]


def tool_part(part: Json) -> Json:
    """Return a tool call or tool result with its data nested two levels deep."""
    metadata = {**(part.get("metadata") or {}), parts.EVENT_TYPE: parts.TOOL_CALL}
    if (result := parts.tool_result(part)) is not None:
        named = {parts.TOOL_CALL_ID: result.id, parts.IS_ERROR: result.is_error}
        data = {"tool_call_id": result.id, "content": result.content, "error": result.error}
    elif (call := parts.tool_call(part)) is not None:
        named = {parts.TOOL_CALL_ID: call.id, parts.TOOL_NAME: call.name}
        data = {
            "id": call.id,
            "name": call.name,
            "arguments": parts.parsed_arguments(call.arguments),
        }
    else:
        return {**part, "data": {"data": {}}}
    return {"data": {"data": data}, "metadata": metadata | named}


class WholeCalls(Renderer):
    """Joins tool calls from their pieces and renders the rest with an `inner` renderer.

    Only entries that complete a call are rendered for this client alone.
    """

    __slots__ = ("_arguments", "_inner", "_shown")

    def __init__(self, inner: Renderer, shown: int) -> None:
        """Render what follows generation `shown`; earlier entries only complete calls."""
        self._inner, self._shown = inner, shown
        self._arguments = StreamedArguments()

    def opening(self) -> Messages:
        """Return the opening of the inner renderer."""
        return self._inner.opening()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Render the next blocks."""
        shown = max(after, self._shown)
        whole = [self._completed(block) for block in blocks]
        new = [block for block in whole if block.entry.last_generation > shown]
        return self._inner.render(new, shown) if new else ()

    def is_over(self, *, run_ended: bool) -> bool:
        """Return the inner renderer's result."""
        return self._inner.is_over(run_ended=run_ended)

    def ending(self) -> Messages:
        """Return the ending of the inner renderer."""
        return self._inner.ending()

    def interrupted(self, why: Interruption) -> Messages:
        """Return the inner renderer's rendering of an early end."""
        return self._inner.interrupted(why)

    def _completed(self, block: FeedBlock) -> FeedBlock:
        entry = block.entry
        marked = any(mark in line for line in entry.lines for mark in _MARKS)
        if not marked and not self._arguments.is_open:
            return block
        return FeedBlock(_with_lines(entry, [self._event(event) for event in entry.parsed()]))

    def _event(self, event: Json) -> Json:
        update = event.get("statusUpdate")
        if not isinstance(update, dict):
            return event
        if DISCARDED_AFTER in (update.get("metadata") or {}):
            self._arguments.discard()
        status = update.get("status")
        message = status.get("message") if isinstance(status, dict) else None
        if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
            return event
        content = [one for part in message["parts"] for one in self._parts(part)]
        status = {**update["status"], "message": {**message, "parts": content}}
        return {"statusUpdate": {**update, "status": status}}

    def _parts(self, part: Json) -> list[Json]:
        """Return the part, and the call that it completes; pieces are sent too."""
        whole = self._arguments.whole(part)
        return [part, *whole] if parts.is_partial_tool_call(part) else whole


def _with_lines(entry: Entry, events: list[Json]) -> Entry:
    return replace(entry, lines=[json_text.encode(event) for event in events])
