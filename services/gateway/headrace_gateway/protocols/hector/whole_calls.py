"""Streams of messages in which a tool call comes whole, once its arguments are complete."""

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
"""What an entry holds that begins a call's arguments, or discards them."""


class WholeCalls(Renderer):
    """Puts a call together from its pieces, and shows the rest by an `inner` renderer.

    Only entries that complete a call are this client's own; the others are rendered as ever.
    """

    __slots__ = ("_arguments", "_inner", "_shown")

    def __init__(self, inner: Renderer, shown: int) -> None:
        """Show what comes behind generation `shown`; what is read before it completes calls."""
        self._inner, self._shown = inner, shown
        self._arguments = StreamedArguments()

    def opening(self) -> Messages:
        """Return the inner renderer's."""
        return self._inner.opening()

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return what the client gets of the next blocks."""
        shown = max(after, self._shown)
        whole = [self._completed(block) for block in blocks]
        new = [block for block in whole if block.entry.last_generation > shown]
        return self._inner.render(new, shown) if new else ()

    def is_over(self, *, rests: bool) -> bool:
        """Tell what the inner renderer does."""
        return self._inner.is_over(rests=rests)

    def ending(self) -> Messages:
        """Return the inner renderer's."""
        return self._inner.ending()

    def interrupted(self, why: Interruption) -> Messages:
        """Return the inner renderer's."""
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
        said = [one for part in message["parts"] for one in self._parts(part)]
        status = {**update["status"], "message": {**message, "parts": said}}
        return {"statusUpdate": {**update, "status": status}}

    def _parts(self, part: Json) -> list[Json]:
        """Return the part itself, and the call that it completes: pieces are shown, too."""
        whole = self._arguments.whole(part)
        return [part, *whole] if parts.is_partial_tool_call(part) else whole


def _with_lines(entry: Entry, events: list[Json]) -> Entry:
    return replace(entry, lines=[orjson.dumps(event) for event in events])
