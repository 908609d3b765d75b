"""Signals of an agent to a user interface, as the metadata of a task's update.

State, activities, steps, usage and foreign events are not content. A client that shows text and
tool calls would show them as the agent's answer.
"""

from headrace.model import parts
from headrace.model.events import Json

_NAMED = {
    parts.CUSTOM: {"name": parts.CUSTOM_NAME},
    parts.RAW: {"source": parts.SOURCE},
    parts.STEP_STARTED: {"name": parts.STEP_NAME},
    parts.STEP_FINISHED: {"name": parts.STEP_NAME},
    parts.ACTIVITY_SNAPSHOT: {"id": parts.BLOCK_ID, "type": parts.ACTIVITY_TYPE},
    parts.ACTIVITY_DELTA: {"id": parts.BLOCK_ID},
}
"""Metadata fields of signals that have more than data, by field name."""

_VALUES = {
    parts.CUSTOM: "value",
    parts.RAW: "event",
    parts.ACTIVITY_SNAPSHOT: "content",
    parts.ACTIVITY_DELTA: "patch",
}
"""Field name of the data of those signals; steps have no data."""

_KINDS = frozenset(
    {
        *_NAMED,
        parts.STATE_SNAPSHOT,
        parts.STATE_DELTA,
        parts.MESSAGES_SNAPSHOT,
        parts.SUBAGENT_STARTED,
        parts.SUBAGENT_FINISHED,
        parts.USAGE,
    }
)


def signal(part: Json) -> Json | None:
    """Return a part's signal by its kind, or None if the part is content."""
    kind = parts.event_type(part)
    if kind == parts.TASK and "text" in part:
        return {"message": part["text"]}
    if kind not in _KINDS:
        return None
    if (named := _NAMED.get(kind)) is None:
        return {kind: part.get("data")}
    fields = {name: parts.metadata_of(part, key) for name, key in named.items()}
    if (value := _VALUES.get(kind)) is not None:
        fields[value] = part.get("data")
    return {kind: {name: value for name, value in fields.items() if value is not None}}
