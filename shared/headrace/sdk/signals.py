"""Output that only user interfaces receive."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from headrace.model import a2ui
from headrace.model.a2ui import BASIC_CATALOG
from headrace.model.events import Json


@dataclass(frozen=True, slots=True)
class State:
    """The complete state that the agent shares with its user interface."""

    state: Any
    """JSON."""


@dataclass(frozen=True, slots=True)
class StateDelta:
    """A change of the shared state."""

    patch: Sequence[Json]
    """JSON Patch (RFC 6902), such as ``[{"op": "replace", "path": "/count", "value": 2}]``. A patch
    that can't be applied is dropped, and the complete state is sent instead. The run fails if the
    state would take more than 1 MB of JSON."""


@dataclass(frozen=True, slots=True)
class Messages:
    """The complete conversation. It replaces the messages that the user interface has."""

    messages: Sequence[Json]
    """AG-UI Messages, each with its own ``id``, such as ``{"id": "m1", "role": "user", "content":
    "Hi"}``. Activities that are left out stay."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Structured content that a user interface renders by its `type`."""

    type: str
    content: Json
    id: str = ""
    """A second activity with this id replaces the first. Generated if empty."""


@dataclass(frozen=True, slots=True)
class ActivityDelta:
    """A change of an activity's content."""

    id: str
    """Id of the activity."""
    patch: Sequence[Json]
    """JSON Patch (RFC 6902) of the content."""


@dataclass(frozen=True, slots=True)
class Surfaces:
    """Changes of user interfaces that the agent describes and clients draw (A2UI 0.9)."""

    messages: Sequence[Json]
    """A2UI messages from the agent: ``createSurface``, ``updateComponents``, ``updateDataModel``
    and ``deleteSurface``. A surface that is created again replaces the one of that id."""

    @classmethod
    def draw(
        cls,
        surface: str,
        components: Sequence[Json],
        data: Any = None,  # noqa: ANN401  # any JSON
        *,
        catalog: str = BASIC_CATALOG,
        sends_data: bool = False,
    ) -> Self:
        """Return the messages that draw a surface.

        Args:
            surface: Its id.
            components: Flat, by id, such as ``{"id": "root", "component": "Text", "text": "Hi"}``.
                One has the id ``root``.
            data: What the components' paths are in. None: no data.
            catalog: Id of the catalog that has the components.
            sends_data: Whether clients send the surface's data with each message.
        """
        created = {"catalogId": catalog, **({"sendDataModel": True} if sends_data else {})}
        drawn = [
            a2ui.message(a2ui.CREATE, surface, **created),
            a2ui.message(a2ui.COMPONENTS, surface, components=list(components)),
        ]
        if data is not None:
            drawn.append(a2ui.message(a2ui.DATA, surface, path="/", value=data))
        return cls(drawn)

    @classmethod
    def change(cls, surface: str, path: str, value: Any) -> Self:  # noqa: ANN401  # any JSON
        """Return the message that sets a surface's data at `path`, such as ``/order/total``."""
        return cls([a2ui.message(a2ui.DATA, surface, path=path, value=value)])

    @classmethod
    def delete(cls, surface: str) -> Self:
        """Return the message that removes a surface."""
        return cls([a2ui.message(a2ui.DELETE, surface)])


@dataclass(frozen=True, slots=True)
class SurfaceAction:
    """What a user has done on a surface; `RunContext.surface_action` is the input's."""

    name: str
    """The action's name, as the component states it."""
    surface: str
    """Id of the surface."""
    component: str
    """Id of the component."""
    context: Json
    """What the component sends with it, from the surface's data."""


@dataclass(frozen=True, slots=True)
class Step:
    """The start of a step, or its end if `finished`."""

    name: str
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Subagent:
    """The start or the end of a subagent: another agent in the same process that works on the task.

    Output until the end remains output of the task. Only user interfaces show which subagent it
    comes from.
    """

    name: str
    id: str
    """Unique in the task's log."""
    finished: bool = False
    """Whether the subagent has ended. False: it starts."""
    suspended: bool = False
    """Whether it ended because it waits for the user."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage of a model. Reports with the same provider and model are summed."""

    model: str = ""
    provider: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    """0: not reported."""
    reasoning_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    cost: float = 0.0
    """What the model call cost, in the one currency that all agents of the fleet report."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A custom event, for user interfaces that handle its name."""

    name: str
    value: Any = None
    """JSON."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An unmodified event of another system."""

    event: Any
    """JSON."""
    source: str = ""


type Signal = (
    State
    | StateDelta
    | Messages
    | Activity
    | ActivityDelta
    | Surfaces
    | Step
    | Subagent
    | Usage
    | Custom
    | Raw
)
"""Output that accompanies the answer. It neither ends nor interrupts a block."""

SIGNALS = (
    State,
    StateDelta,
    Messages,
    Activity,
    ActivityDelta,
    Surfaces,
    Step,
    Subagent,
    Usage,
    Custom,
    Raw,
)
