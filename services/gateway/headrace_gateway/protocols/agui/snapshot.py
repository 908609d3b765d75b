"""Saying all messages at once, where some of what was said no longer holds."""

from collections.abc import Sequence

from headrace.model.events import Json
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import View

_KEEP_OTHER_ACTIVITIES: Json = {"metadata": {"@ag-ui/client": {"authoritativeActivityTypes": []}}}
"""Asks the official client to keep activities that the snapshot omits: earlier runs' ones, which
inputs never carry. It would drop them as soon as a snapshot has one activity."""


def say_messages(output: Output, view: View) -> None:
    """Say a snapshot of all messages in `view`."""
    output.emit("MESSAGES_SNAPSHOT", **messages_snapshot(view))


def messages_snapshot(view: View, earlier: Sequence[Json] = ()) -> Json:
    """Return the fields of a snapshot of `earlier` messages and those in `view`."""
    return snapshot_of([*earlier, *view.shown()])


def snapshot_of(messages: list[Json]) -> Json:
    """Return the fields of a snapshot of `messages`."""
    has_activity = any(message["role"] == "activity" for message in messages)
    return {"messages": messages, **(_KEEP_OTHER_ACTIVITIES if has_activity else {})}
