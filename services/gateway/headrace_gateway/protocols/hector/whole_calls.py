"""Message streams in which each tool call is sent whole, once its arguments are complete."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from headrace.model import parts
from headrace.model.entry import Entry
from headrace.model.events import DISCARDED_AFTER, Json
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.hector.tool_calls import StreamedArguments
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer

_MARKS = tuple(f'"{key}"'.encode() for key in (parts.PARTIAL, DISCARDED_AFTER))
"""Keys of an entry that starts or discards a call's arguments."""


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

    def is_over(self, *, rests: bool) -> bool:
        """Return the inner renderer's result."""
        return self._inner.is_over(rests=rests)

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
    return replace(entry, lines=[orjson.dumps(event) for event in events])
