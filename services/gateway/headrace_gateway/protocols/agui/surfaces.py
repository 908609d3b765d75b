"""A2UI surfaces as activities: each with the fewest messages that draw it as it is.

Clients send no activities with a run. A change of a surface that an earlier run has made is
therefore sent as what it adds to the activity, whose id is the same in the whole thread.
"""

from headrace.model import a2ui
from headrace.model.a2ui import ACTIVITY_TYPE, CREATE, DELETE, OPERATIONS, DrawnSurface
from headrace.model.events import Json
from headrace.model.json_patch import Document
from headrace_gateway.protocols.agui.output import Output
from headrace_gateway.protocols.agui.view import HeldActivity, View

_USE = "surface"


class SurfaceEvents:
    """Emits the activities of surfaces."""

    def __init__(self, output: Output, view: View) -> None:
        """Emit to `output`; `view` has the surfaces that the run has made or changed."""
        self._output, self._view = output, view

    def part(self, part: Json, _name: str) -> None:
        """Emit what a part's messages make of surfaces.

        Raises:
            ValueError: a message is none of A2UI's, changes a surface that has been deleted, or
                would make it larger than may be.
        """
        by_surface = dict[str, list[Json]]()
        for message in a2ui.check_messages(part["data"]):
            by_surface.setdefault(a2ui.surface_of(message), []).append(message)
        for surface, messages in by_surface.items():
            self._take(surface, messages)

    def _take(self, surface: str, messages: list[Json]) -> None:
        shown = self._view.find(self._output.use(_USE), f"{ACTIVITY_TYPE}-{surface}")
        held = self._view.messages.get(shown)
        whole = [
            at for at, message in enumerate(messages) if CREATE in message or DELETE in message
        ]
        if whole:
            first, *rest = messages[whole[-1] :]
            self._show(shown, changed({OPERATIONS: [first]}, rest))
        elif isinstance(held, HeldActivity) and not held.is_change:
            self._change(shown, held.content.value, changed(held.content.value, messages))
        else:
            before = held.content.value[OPERATIONS] if isinstance(held, HeldActivity) else []
            self._hold(shown, {OPERATIONS: [*before, *messages]}, is_change=True)
            self._emit_patch(shown, list(map(_added, messages)))

    def _change(self, shown: str, before: Json, after: Json) -> None:
        old, new = before[OPERATIONS], after[OPERATIONS]
        if len(new) < len(old):  # It has no data any more.
            self._show(shown, after)
            return
        self._hold(shown, after, is_change=False)
        places = [at for at, message in enumerate(old) if message != new[at]]
        replaced = [
            {"op": "replace", "path": f"/{OPERATIONS}/{at}", "value": new[at]} for at in places
        ]
        self._emit_patch(shown, [*replaced, *map(_added, new[len(old) :])])

    def _show(self, shown: str, content: Json) -> None:
        self._hold(shown, content, is_change=False)
        self._output.emit(
            "ACTIVITY_SNAPSHOT",
            messageId=shown,
            activityType=ACTIVITY_TYPE,
            content=content,
            replace=True,
        )

    def _emit_patch(self, shown: str, patch: list[Json]) -> None:
        self._output.emit(
            "ACTIVITY_DELTA", messageId=shown, activityType=ACTIVITY_TYPE, patch=patch
        )

    def _hold(self, shown: str, content: Json, *, is_change: bool) -> None:
        document = Document(content)
        document.check()
        self._view.ids[shown] = self._output.use(_USE)
        self._view.messages[shown] = HeldActivity(
            shown, ACTIVITY_TYPE, document, self._output.subagent, is_change=is_change
        )


def _added(message: Json) -> Json:
    return {"op": "add", "path": f"/{OPERATIONS}/-", "value": message}


def changed(content: Json, messages: list[Json]) -> Json:
    """Return the content of a surface's activity after `messages`.

    Raises:
        ValueError: the surface has been deleted.
    """
    if not messages:
        return content
    drawn = DrawnSurface.read(content)
    for message in messages:
        drawn.apply(message)
    return drawn.content()


def blanked(content: Json) -> Json:
    """Return the content of an activity whose surface is not to be drawn."""
    surface = a2ui.surface_of(content[OPERATIONS][0])
    return {OPERATIONS: [a2ui.message(DELETE, surface)]}
