"""What an agent relays from a task of another fleet: its metadata, and parts without our hints."""

from headrace.model import parts
from headrace.model.events import (
    INPUT_SCHEMA,
    INTERRUPTS,
    NEEDS_ANSWER,
    PENDING_TOOL_CALLS,
    REFUSED,
    Json,
)

_OWN = "headrace."

_PASSED_ON = frozenset({INPUT_SCHEMA, INTERRUPTS, NEEDS_ANSWER, PENDING_TOOL_CALLS, REFUSED})
"""Headrace metadata that keeps its meaning in another fleet's log."""


def foreign(metadata: Json) -> Json:
    """Return `metadata` without the keys that describe an event of another log."""
    return {
        key: value
        for key, value in metadata.items()
        if not key.startswith(_OWN) or key in _PASSED_ON
    }


def hinted(part: Json, kind: str) -> Json:
    """Return the part; text without an event type gets the event type `kind`."""
    if not is_bare_text(part):
        return part
    return {**part, "metadata": {parts.EVENT_TYPE: kind, **part.get("metadata", {})}}


def is_bare_text(part: Json) -> bool:
    """Return whether the part is text that is no file and has no event type."""
    return "text" in part and not part.get("filename") and not parts.event_type(part)
