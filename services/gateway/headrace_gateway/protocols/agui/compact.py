"""Event streams made short: what was said piece by piece in one piece, nothing else changed.

Items that interleave come one after the other, each where it began.
"""

from dataclasses import dataclass, field

from headrace.model.events import Json

_STARTS = {
    "TEXT_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "REASONING_MESSAGE_START": "messageId",
}
_DELTAS = {
    "TEXT_MESSAGE_CONTENT": "messageId",
    "TOOL_CALL_ARGS": "toolCallId",
    "REASONING_MESSAGE_CONTENT": "messageId",
}
_ENDS = {
    "TEXT_MESSAGE_END": "messageId",
    "TOOL_CALL_END": "toolCallId",
    "REASONING_MESSAGE_END": "messageId",
}


@dataclass(slots=True)
class _Item:
    """One message or call that is open."""

    start: Json
    deltas: list[Json] = field(default_factory=list)

    end: Json | None = None

    def events(self) -> list[Json]:
        """Return what is left of it."""
        whole = "".join(delta["delta"] for delta in self.deltas)
        said = [{**self.deltas[0], "delta": whole}] if whole else []
        return [self.start, *said, *([] if self.end is None else [self.end])]


def compacted(events: list[Json]) -> list[Json]:
    """Return `events`, the stream of one run, with each item's deltas in one."""
    items: list[Json | _Item] = []
    is_open: dict[tuple[str, str], _Item] = {}
    for event in events:
        kind = event["type"]
        if kind in _STARTS:
            item = is_open[_key(kind, event[_STARTS[kind]])] = _Item(event)
            items.append(item)
        elif kind in _DELTAS:
            is_open[_key(kind, event[_DELTAS[kind]])].deltas.append(event)
        elif kind in _ENDS:
            is_open.pop(_key(kind, event[_ENDS[kind]])).end = event
        else:
            items.append(event)
    return [event for one in items for event in (one.events() if isinstance(one, _Item) else [one])]


def _key(kind: str, name: str) -> tuple[str, str]:
    return kind.partition("_")[0], name
