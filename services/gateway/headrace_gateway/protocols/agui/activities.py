"""Activities: the agent's files, data and notices, and structured content of custom types."""

from typing import Any

from headrace.model import parts
from headrace.model.a2ui import ACTIVITY_TYPE as SURFACE
from headrace.model.events import Json
from headrace.model.json_patch import Document, PatchFailed
from headrace.model.parts import ACTIVITY_TYPE
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.surfaces import blanked
from headrace_gateway.protocols.agui.view import HeldActivity, View

ARTIFACT = "artifact"
"""Activity type of a result that is not answer text; its content is an A2A Artifact."""
STATUS = "status"
"""Activity type of a progress message; its content is ``text``."""

_USE = "activity"


class Activities:
    """Emits ACTIVITY events and keeps the resulting activities in the view."""

    def __init__(self, output: Output, view: View) -> None:
        """Emit to `output`."""
        self._output, self._view = output, view

    def artifact(self, artifact: Json, *, append: bool) -> None:
        """Emit an artifact, or the parts that a chunk appends to it."""
        held = self._held(artifact["artifactId"])
        if held is not None and append:
            self._append(held, artifact["parts"])
        elif held is not None or artifact["parts"]:
            self._show(self._id(artifact["artifactId"]), ARTIFACT, artifact)

    def status(self, message: str, text: str) -> None:
        """Emit a progress message."""
        self._show(self._id(message), STATUS, {"text": text})

    def snapshot(self, part: Json, name: str) -> None:
        """Emit the activity in a part.

        Raises:
            ValueError: the content is not an object.
        """
        content = part["data"]
        if not isinstance(content, dict):
            raise ValueError("an activity's content must be an object")  # noqa: TRY004 - patches raise ValueError too
        self._show(self._id(name), _type(part), content)

    def delta(self, part: Json, name: str) -> None:
        """Apply a part's patch to its activity and emit it.

        A client that cannot apply a patch loses track of the content, so a patch that does not fit
        is not emitted. Nor is one that would make the content larger than may be.

        Raises:
            ValueError: the patch does not fit, or the activity does not exist.
        """
        held = self._held(name)
        if held is None:
            raise ValueError("unknown activity")
        self._change(held, part["data"])

    def blank(self, activity: HeldActivity) -> HeldActivity:
        """Empty an activity, because AG-UI has no event that removes one."""
        return self._show(activity.id, activity.type, _without_content(activity))

    def _id(self, name: str) -> str:
        if (held := self._held(name)) is not None:
            return held.id
        return self._view.claim(self._output.use(_USE), self._output.unique(name))

    def _held(self, name: str) -> HeldActivity | None:
        """Return the run's activity with the agent's id `name`, or one that the agent has set."""
        unique = self._view.find(self._output.use(_USE), self._output.unique(name))
        for message in (unique, name):
            held = self._view.messages.get(message)
            if isinstance(held, HeldActivity) and held.subagent == self._output.subagent:
                return held
        return None

    def _show(self, message: str, kind: str, content: Json) -> HeldActivity:
        shown = self._view.messages[message] = HeldActivity(
            message, kind, Document(content), self._output.subagent
        )
        self._output.emit(
            "ACTIVITY_SNAPSHOT", messageId=message, activityType=kind, content=content, replace=True
        )
        return shown

    def _append(self, held: HeldActivity, added: list[Json]) -> None:
        # Not as a patch: an artifact has no limit, and grows only by what the log has.
        artifact = held.content.value
        held.content = Document({**artifact, "parts": [*artifact["parts"], *added]})
        self._emit_change(held, [{"op": "add", "path": "/parts/-", "value": p} for p in added])

    def _change(self, held: HeldActivity, patch: Any) -> None:  # noqa: ANN401 - checked by `patched`
        content = held.content.patched(patch, self._view.activity_copies)
        if not isinstance(content.value, dict):
            raise PatchFailed("an activity's content must be an object")
        held.content = content
        self._emit_change(held, patch)

    def _emit_change(self, held: HeldActivity, patch: list[Json]) -> None:
        if patch:
            self._output.emit(
                "ACTIVITY_DELTA", messageId=held.id, activityType=held.type, patch=patch
            )


def _without_content(activity: HeldActivity) -> Json:
    if activity.type == ARTIFACT:
        return {**activity.content.value, "parts": []}
    return blanked(activity.content.value) if activity.type == SURFACE else {}


def _type(part: Json) -> str:
    kind = parts.metadata_of(part, ACTIVITY_TYPE)
    return kind if isinstance(kind, str) and kind else "activity"
