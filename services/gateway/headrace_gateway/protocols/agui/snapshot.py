"""Snapshots of the state that agent and client share, and of all messages."""

from headrace.model.events import Json
from headrace.model.json_patch import Document
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import View

_KEEP_OTHER_ACTIVITIES: Json = {"metadata": {"@ag-ui/client": {"authoritativeActivityTypes": []}}}
"""Makes the official client keep activities that the snapshot omits.

These are activities of earlier runs, which inputs never contain. The client would drop them as soon
as a snapshot has one activity.
"""


def emit_messages(output: Output, view: View) -> None:
    """Emit a snapshot of all messages in `view`."""
    output.emit("MESSAGES_SNAPSHOT", **snapshot_of(view.shown()))


def snapshot_of(messages: list[Json]) -> Json:
    """Return the fields of a snapshot of `messages`."""
    has_activity = any(message["role"] == "activity" for message in messages)
    return {"messages": messages, **(_KEEP_OTHER_ACTIVITIES if has_activity else {})}


class StateEvents:
    """Emits STATE events and updates the view."""

    def __init__(self, output: Output, view: View) -> None:
        """Emit to `output`."""
        self._output, self._view = output, view

    def snapshot(self, part: Json, _message: str) -> None:
        """Emit the whole state, the content of a data part."""
        self._view.state = Document(part["data"])
        self.emit()

    def delta(self, part: Json, _message: str) -> None:
        """Emit a change of the state.

        A client that cannot apply a patch loses track of the state, so a patch that does not fit is
        not emitted. Nor is one that would make the state larger than may be.

        Raises:
            ValueError: the patch does not fit the state.
        """
        self._view.state = self._view.state.patched(part["data"])
        if part["data"]:
            self._output.emit("STATE_DELTA", delta=part["data"])

    def emit(self) -> None:
        """Emit the current state."""
        self._output.emit("STATE_SNAPSHOT", snapshot=self._view.state.value)
