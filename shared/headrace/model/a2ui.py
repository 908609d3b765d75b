"""A2UI surfaces: user interfaces that an agent describes and clients draw (A2UI 0.9, a2ui.org).

An agent sends messages that create a surface, set its components and its data, and delete it. The
log has them as A2A data parts, as A2UI's extension of A2A describes. AG-UI's clients receive each
surface as an activity, whose content is the fewest messages that draw it as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.model.events import Json
from headrace.model.nesting import MAX_DEPTH, RULE, is_too_deep

VERSION = "v0.9"

MEDIA_TYPE = "application/a2ui+json"

MEDIA_TYPES = frozenset({MEDIA_TYPE, "application/json+a2ui"})
"""The media type of A2UI's messages, and that of A2UI 0.8."""

EXTENSION = "https://a2ui.org/a2a-extension/a2ui/v0.9"
"""URI of A2UI's extension of A2A, on the cards of agents that make surfaces."""

BASIC_CATALOG = "https://a2ui.org/specification/v0_9/basic_catalog.json"
"""Id of the catalog of components that every client of A2UI has."""

CLIENT_DATA = "a2uiClientDataModel"
"""Key in an A2A message's metadata for the data of the client's surfaces."""

ACTIVITY_TYPE = "a2ui-surface"
"""AG-UI's activity type of a surface."""

OPERATIONS = "a2ui_operations"
"""Member of such an activity's content: its messages."""

CREATE, COMPONENTS, DATA, DELETE = (
    "createSurface",
    "updateComponents",
    "updateDataModel",
    "deleteSurface",
)
_KINDS = (CREATE, COMPONENTS, DATA, DELETE)


class SurfaceInvalid(ValueError):
    """A message is none of A2UI's; the text names the member and the rule."""


def extension(catalogs: Sequence[str]) -> Json:
    """Return A2UI's AgentExtension for an agent that uses components of these catalogs."""
    return {
        "uri": EXTENSION,
        "description": f"Makes user interfaces of A2UI {VERSION}, in parts of {MEDIA_TYPE}.",
        "required": False,
        "params": {"supportedCatalogIds": list(catalogs), "acceptsInlineCatalogs": False},
    }


def message(kind: str, surface: str, **members: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return an A2UI message of `kind` for the surface with that id."""
    return {"version": VERSION, kind: {"surfaceId": surface, **members}}


def kind_of(given: Json) -> str:
    """Return what the message, one that has been checked, does: `CREATE` or another of these."""
    return next(kind for kind in _KINDS if kind in given)


def surface_of(given: Json) -> str:
    """Return the id of the surface that the message, one that has been checked, is for."""
    surface: str = given[kind_of(given)]["surfaceId"]
    return surface


def check_messages(given: object) -> Sequence[Json]:
    """Return the messages that an agent sends, if all are A2UI's.

    The components' own properties are for the catalog, which only clients have.

    Raises:
        SurfaceInvalid: one is not.
    """
    if not isinstance(given, list | tuple):
        raise SurfaceInvalid("messages: must be a list of A2UI messages")
    for number, one in enumerate(given):
        try:
            _check(one)
        except SurfaceInvalid as invalid:
            raise SurfaceInvalid(f"messages[{number}]{invalid}") from None
    return given


def _check(given: object) -> None:
    if not isinstance(given, dict):
        raise SurfaceInvalid(": must be an object")
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        raise SurfaceInvalid(f": must have exactly one of {', '.join(_KINDS)}")
    [kind] = kinds
    content = given[kind]
    if not isinstance(content, dict):
        raise SurfaceInvalid(f".{kind}: must be an object")
    _check_text(content, kind, "surfaceId")
    if kind == CREATE:
        _check_text(content, kind, "catalogId")
    elif kind == COMPONENTS:
        _check_components(content.get("components"))
    elif kind == DATA:
        # The steps of the path become levels of the data, too.
        levels = MAX_DEPTH - len(_path(content))
        if levels < 1 or is_too_deep(content, levels):
            raise SurfaceInvalid(f".{DATA}: {RULE}")


def _check_text(content: Json, kind: str, name: str) -> None:
    if not isinstance(value := content.get(name), str) or not value:
        raise SurfaceInvalid(f".{kind}.{name}: must be a text that is not empty")


def _check_components(given: object) -> None:
    where = f".{COMPONENTS}.components"
    if not isinstance(given, list):
        raise SurfaceInvalid(f"{where}: must be a list")
    if is_too_deep(given):
        raise SurfaceInvalid(f"{where}: {RULE}")
    for number, one in enumerate(given):
        if not isinstance(one, dict) or not isinstance(one.get("id"), str) or not one["id"]:
            raise SurfaceInvalid(f"{where}[{number}].id: must be a text that is not empty")
        if not isinstance(one.get("component"), str):
            raise SurfaceInvalid(f"{where}[{number}].component: must be a component's name")


def _path(content: Json) -> list[str]:
    """Return the steps of the path in a message that changes data."""
    path = content.get("path", "/")
    if not isinstance(path, str) or not path.startswith("/"):
        raise SurfaceInvalid(f".{DATA}.path: must be a JSON Pointer, as /order/total")
    steps = path[1:].split("/") if path != "/" else []
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


@dataclass(slots=True)
class DrawnSurface:
    """A surface as it is after some messages."""

    created: Json
    """The message that has created it."""
    components: dict[str, Json] = field(default_factory=dict)
    """By id, in the order in which they came."""
    data: Any = None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Return the surface of an activity's content.

        Raises:
            ValueError: it is none, or it has been deleted.
        """
        first, *rest = check_messages(content.get(OPERATIONS)) or [{}]
        if CREATE not in first:
            raise SurfaceInvalid("the surface has been deleted")
        read = cls(first)
        for one in rest:
            read.apply(one)
        return read

    def apply(self, given: Json) -> None:
        """Apply a message, one that has been checked, for this surface."""
        if COMPONENTS in given:
            self.components |= {one["id"]: one for one in given[COMPONENTS]["components"]}
        elif DATA in given:
            self.data = _with_value(self.data, _path(given[DATA]), given[DATA].get("value"))

    def content(self) -> Json:
        """Return the content of its activity."""
        surface, drawn = surface_of(self.created), [self.created]
        if self.components:
            drawn.append(message(COMPONENTS, surface, components=[*self.components.values()]))
        if self.data is not None:
            drawn.append(message(DATA, surface, path="/", value=self.data))
        return {OPERATIONS: drawn}


def _with_value(data: Any, path: list[str], value: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return `data` with `value` at `path`, and without what is there if that is None.

    What is on the way to it and is no object or list becomes an object, as in clients.
    """
    if not path:
        return value
    first, *rest = path
    if isinstance(data, list) and first.isdecimal():
        at = int(first)
        changed = _with_value(data[at] if at < len(data) else None, rest, value)
        return [*data[:at], changed, *data[at + 1 :]]
    held = dict(data) if isinstance(data, dict) else {}
    changed = _with_value(held.get(first), rest, value)
    if changed is None:
        held.pop(first, None)
    else:
        held[first] = changed
    return held


def action_message(action: Mapping[str, Any]) -> Json:
    """Return the A2UI message of what a user has done on a surface, as clients send it."""
    return {"version": VERSION, "action": dict(action)}
